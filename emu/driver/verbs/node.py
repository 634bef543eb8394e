"""Function after its probe, and the verbs objects of one process on it."""

from __future__ import annotations

from typing import Any

from emu.driver.verbs.completions import CompletionQueue
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.queue_pair import QueuePair
from emu.driver.verbs.region import Region
from emu.driver.verbs.shared_queue import SharedQueue
from layouts.enums.qp import QpType


class Node(Endpoint):
    """Creates regions and queues; the wire between two nodes does not matter here."""

    def region(self, size: int, **context: Any) -> Region:
        """Register memory of ``size`` bytes; ``va`` and fields of the key's context are options."""
        return Region(self, size, **context)

    def completion_queue(self, log_size: int = 8, **context: Any) -> CompletionQueue:
        """Create a CQ of ``1 << log_size`` entries."""
        return CompletionQueue(self, log_size, **context)

    def shared_queue(self, **options: Any) -> SharedQueue:
        """Create a shared receive queue; see :class:`SharedQueue` for its options."""
        return SharedQueue(self, **options)

    def queue_pair(self, st: QpType = QpType.RC, **context: Any) -> QueuePair:
        """Create a queue pair in RST; see :class:`QueuePair` for its options."""
        return QueuePair(self, st, **context)

"""A queue's turn: what it does when it is first in the device's ready list.

A doorbell puts its queue on that list. A turn does a bounded number of the queue's requests, and
the queue goes back on the list if there are more. Each class of queue registers its turn function
with ``@turn_of``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.device.objects.queues.queue import Queue
from emu.device.state.hca import Hca

Turn = Callable[[Hca, Any], bool]
"""Does a share of a queue's waiting work; True when it wants another turn."""

TURNS: dict[type[Queue], Turn] = {}
"""The turn function of each class of queue."""


def turn_of(kind: type[Queue]) -> Callable[[Turn], Turn]:
    """Register the turn function of a class of queue. Raises ValueError if it has one."""

    def register(function: Turn) -> Turn:
        if kind in TURNS:
            raise ValueError(f"{kind.__name__} has a turn already: {TURNS[kind]}")
        TURNS[kind] = function
        return function

    return register

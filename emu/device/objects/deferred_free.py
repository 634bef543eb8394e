"""Objects that are still to be ended and freed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from emu.device.objects.object import Object
from emu.device.rounds.costs import LOG_FREED_PER_STEP
from emu.device.rounds.sizes import FREED_PER_ROUND

_LOG_BYTES: Final = 14
"""As many bytes of an object's own lists take as long to free as an object."""


class DeferredFree:
    """Objects that no longer exist for the guest but still have to be freed on the host.

    There may be a million of them when a function is reset, and freeing them takes a second.
    """

    def __init__(self) -> None:
        self.tables: deque[dict[int, Object]] = deque()
        """Contents of tables, none of them empty."""
        self.work: deque[Iterator[int]] = deque()
        """Endings that come before them: each yields the cost of a share, in objects freed."""

    def __len__(self) -> int:
        return len(self.work) + sum(map(len, self.tables))

    @property
    def is_left(self) -> bool:
        """Whether anything is."""
        return bool(self.work or self.tables)

    def add(self, objects: dict[int, Object]) -> None:
        """Take over the contents of a table."""
        if objects:
            self.tables.append(objects)

    def add_work(self, work: Iterator[int]) -> None:
        """End something else first, a share at a time."""
        self.work.append(work)

    def free_some(self) -> int:
        """End and free as much as one round allows; returns what that counts among its steps."""
        cost = 0
        while self.work and cost < FREED_PER_ROUND:
            share = next(self.work[0], 0)
            if not share:
                self.work.popleft()
            cost += share
        while self.tables and cost < FREED_PER_ROUND:
            objects = self.tables[0]
            while objects and cost < FREED_PER_ROUND:
                item = objects.popitem()[1]
                cost += 1 + item.give_up() + (item.charge >> _LOG_BYTES)
                item.unlink()
            if not objects:
                self.tables.popleft()
        return (cost >> LOG_FREED_PER_STEP) + 1

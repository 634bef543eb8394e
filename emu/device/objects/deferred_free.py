"""Objects whose cleanup and freeing is deferred to later rounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from emu.device.objects.object import Object
from emu.device.rounds.costs import LOG_FREED_PER_STEP
from emu.device.rounds.sizes import FREED_PER_ROUND

_LOG_BYTES: Final = 14
"""log2 of the bytes of an object's own lists that take as long to free as one object."""


class DeferredFree:
    """Objects that no handle names any more but that the host still has to free.

    A function that is reset may leave a million objects; freeing all of them takes a second.
    """

    def __init__(self) -> None:
        self.tables: deque[dict[int, Object]] = deque()
        """Contents of tables, none of them empty."""
        self.work: deque[Iterator[int]] = deque()
        """Cleanup that precedes the tables: each iterator yields a step's cost, in objects freed.
        """
        self.is_left = False
        """Whether cleanup or objects are left."""

    def __len__(self) -> int:
        return len(self.work) + sum(map(len, self.tables))

    def add(self, objects: dict[int, Object]) -> None:
        """Take over the contents of a table, to free them in later rounds.

        Ignore an empty table.
        """
        if objects:
            self.tables.append(objects)
            self.is_left = True

    def add_work(self, work: Iterator[int]) -> None:
        """Queue cleanup that runs before the objects are freed, one step at a time."""
        self.work.append(work)
        self.is_left = True

    def free_some(self) -> int:
        """Clean up and free about FREED_PER_ROUND objects; return the cost in steps, at least 1.

        Queued cleanup runs before any object is freed. Each object's timers and pending work are
        cancelled (``cancel_work``). Check ``is_left`` for the rest.
        """
        cost = 0
        while self.work and cost < FREED_PER_ROUND:
            step_cost = next(self.work[0], 0)
            if not step_cost:
                self.work.popleft()
            cost += step_cost
        while self.tables and cost < FREED_PER_ROUND:
            objects = self.tables[0]
            while objects and cost < FREED_PER_ROUND:
                item = objects.popitem()[1]
                cost += 1 + item.cancel_work() + (item.charge >> _LOG_BYTES)
                item.unlink()
            if not objects:
                self.tables.popleft()
        self.is_left = bool(self.work or self.tables)
        return (cost >> LOG_FREED_PER_STEP) + 1

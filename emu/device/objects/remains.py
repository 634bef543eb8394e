"""What is still to be freed."""

from __future__ import annotations

from collections import deque

from emu.device.objects.object import Object
from emu.device.rounds.costs import LOG_FREED_PER_STEP
from emu.device.rounds.sizes import FREED_PER_ROUND


class Remains:
    """Objects that no longer exist for the guest but still have to be freed on the host.

    There may be a million of them when a function is reset, and freeing them takes a second.
    """

    def __init__(self) -> None:
        self.tables: deque[dict[int, Object]] = deque()
        """Contents of tables, none of them empty."""

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def add(self, objects: dict[int, Object]) -> None:
        """Take over the contents of a table."""
        if objects:
            self.tables.append(objects)

    def free_some(self) -> int:
        """Free as many as one round allows; returns what that counts among its steps."""
        objects = self.tables[0]
        count = min(len(objects), FREED_PER_ROUND)
        for _ in range(count):
            objects.popitem()[1].unlink()
        if not objects:
            self.tables.popleft()
        return (count >> LOG_FREED_PER_STEP) + 1

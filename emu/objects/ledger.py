"""What the host holds for a guest: one account for each kind of it, all out of one limit, in bytes.

A guest may make hundreds of thousands of objects, each with a list of pages, and name one page of
its own in all of them. What that costs the host is counted here before it is allocated, and refused
with LIM_ERR when the limit is reached. The numbers are what Python needs, rounded up, not what a
real adapter would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from emu.errors import CmdError
from layouts.enums import Status

COMMAND = "command"
"""The account of the commands at work; it outlives a teardown."""


class Ledger:
    """The accounts of one function between two resets."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._accounts: Counter[str] = Counter()

    @property
    def accounts(self) -> Mapping[str, int]:
        """Bytes by kind, those that are not zero."""
        return {kind: used for kind, used in self._accounts.items() if used}

    def check(self, kind: str, size: int) -> None:
        """Raise LIM_ERR when there are not so many bytes left."""
        if self.used + size > self.limit:
            raise CmdError(
                Status.LIM_ERR,
                "no host memory left for this function",
                f"{kind}: {size} bytes wanted, {self.limit - self.used} left",
            )

    def take(self, kind: str, size: int) -> None:
        """Something is about to be held. Raises LIM_ERR, and nothing has changed."""
        self.check(kind, size)
        self.hold(kind, size)

    def hold(self, kind: str, size: int) -> None:
        """Something is held that cannot be refused, because other things bound it."""
        self.used += size
        self._accounts[kind] += size

    def give_back(self, kind: str, size: int) -> None:
        """It is gone."""
        self.hold(kind, -size)

    def close(self, kind: str) -> None:
        """All of a kind is gone at once."""
        self.used -= self._accounts.pop(kind, 0)

    @contextmanager
    def at_work(self, size: int) -> Iterator[None]:
        """A command holds so much until it is done; of long ones there is one at a time."""
        self.hold(COMMAND, size)
        try:
            yield
        finally:
            self.give_back(COMMAND, size)

"""Host memory that the device uses for a guest, in bytes by kind, under one limit.

A guest may create hundreds of thousands of objects with page lists, and name the same page of its
memory in all of them. The ledger counts the cost on the host before the allocation and refuses with
LIM_ERR above the limit. Costs are those of Python, rounded up, not of a real adapter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from emu.device.errors import CmdError
from layouts.enums.cmd import Status

SUB_FUNCTIONS: Final = "sub-functions"
"""The account of memory that a function's sub-functions use."""
COMMAND: Final = "command"
"""The account of commands in progress, which survives a teardown."""


class Ledger:
    """The accounts of one function between two resets."""

    def __init__(self, limit: int, above: Ledger | None = None) -> None:
        """Create empty accounts; the limit of the parent function's ledger ``above`` also holds."""
        self.limit = limit
        self._above = above
        self.used = 0
        self._accounts: Counter[str] = Counter()

    @property
    def accounts(self) -> Mapping[str, int]:
        """Bytes by kind, without the kinds at zero; a copy."""
        return {kind: used for kind, used in self._accounts.items() if used}

    def held(self, kind: str) -> int:
        """Return the bytes of one kind."""
        return self._accounts[kind]

    def check(self, kind: str, size: int) -> None:
        """Raise LIM_ERR when fewer than ``size`` bytes are left here or in the parent's ledger.

        Charges nothing; ``kind`` appears only in the refusal.
        """
        if self.used + size > self.limit:
            raise CmdError(
                Status.LIM_ERR,
                "no host memory left for this function",
                f"{kind}: {size} bytes wanted, {self.limit - self.used} left",
            )
        if self._above is not None:
            self._above.check(SUB_FUNCTIONS, size)

    def has_room(self, size: int) -> bool:
        """Return whether ``size`` bytes are left here and in the parent's ledger.

        Charge nothing.
        """
        above = self._above
        return self.used + size <= self.limit and (above is None or above.has_room(size))

    def take(self, kind: str, size: int) -> None:
        """Charge bytes before their allocation. Raises LIM_ERR and then charges nothing.

        The parent's ledger is checked and charged too, under "sub-functions".
        """
        if self.used + size > self.limit or self._above is not None:
            self.check(kind, size)
        self.used += size
        self._accounts[kind] += size
        if self._above is not None:
            self._above.hold(SUB_FUNCTIONS, size)

    def hold(self, kind: str, size: int) -> None:
        """Charge bytes without a check, here and in the parent's ledger; negative sizes credit.

        For bytes that another limit bounds. Usage may exceed the limit.
        """
        self.used += size
        self._accounts[kind] += size
        if self._above is not None:
            self._above.hold(SUB_FUNCTIONS, size)

    def give_back(self, kind: str, size: int) -> None:
        """Credit ``size`` bytes that have been freed."""
        self.hold(kind, -size)

    def close(self, kind: str) -> None:
        """Credit everything of one kind at once, here and in the parent's ledger."""
        self.hold(kind, -self._accounts[kind])
        del self._accounts[kind]

    @contextmanager
    def at_work(self, size: int) -> Iterator[None]:
        """Charge ``size`` bytes to the account "command" while the body runs, without a check.

        Only one long command runs at a time. The bytes are credited also after an exception.
        """
        self.hold(COMMAND, size)
        try:
            yield
        finally:
            self.give_back(COMMAND, size)

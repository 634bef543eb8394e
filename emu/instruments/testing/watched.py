"""A guest during one test: what it has logged since the test began."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.guests import Guest
    from emu.instruments.outcome import Finding

MAX_SHOWN = 20_000
"""Characters of each section of a report."""


class Watched:
    """A guest during one test: the positions in its logs at which the test began."""

    def __init__(self, guest: Guest, *, is_new: bool) -> None:
        """A new guest's boot counts as well."""
        self.guest = guest
        self._console = 0 if is_new else len(guest.console)
        self._trace = guest.options.trace
        self._trace_at = self._trace.stat().st_size if self._trace is not None else 0
        self._last = "" if is_new else next(reversed(self._dmesg_lines()), "")
        """The kernel's last line before the test."""
        self.fired: list[str] = []

    def _dmesg_lines(self) -> list[str]:
        from emu.guests import GuestError

        try:
            return self.guest.dmesg().splitlines()
        except GuestError:
            return []

    def _log(self) -> list[str]:
        """What the kernel has logged since; of a guest that is gone, what its console has shown."""
        lines = self._dmesg_lines()
        if not lines:
            return self._shown().splitlines()
        # The log is a ring: what was the last line may be gone.
        known = len(lines) - lines[::-1].index(self._last) if self._last in lines else 0
        return lines[known:]

    def _shown(self) -> str:
        """What the console has shown since; nothing of a guest that the test has stopped."""
        from emu.guests import GuestError

        try:
            return self.guest.console[self._console :]
        except GuestError:
            return ""

    def findings(self) -> tuple[Finding, ...]:
        """What it tells of."""
        from emu.instruments.outcome import findings

        return findings("\n".join(self._log()))

    def sections(self) -> Iterator[tuple[str, str]]:
        """What has been logged since."""
        yield "findings", "\n".join(f"{one.kind}: {one.title}" for one in self.findings())
        yield "console", self._shown()
        yield "dmesg", "\n".join(self._log())
        yield "faults", "\n".join(self.fired)
        if self._trace is not None:
            with self._trace.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._trace_at, size - MAX_SHOWN))
                if size - MAX_SHOWN > self._trace_at:
                    file.readline()  # the rest of a line
                yield "trace", file.read().decode(errors="replace")

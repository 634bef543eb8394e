"""What several guests have found and try again meanwhile: how much of their time that may take.

A title takes some fifteen guests to be made smaller and tried again, which is as long as hundreds
of inputs: a run that begins with an empty corpus would do little else.
"""

from __future__ import annotations

import time
from collections import deque

from emu.instruments.fuzz.mutate import Input

_SHARE = 0.2
"""Of the guests' time."""


class Later:
    """Titles that wait to be tried again, the oldest first. Not for two threads at once."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._begun = time.monotonic()
        self._waiting: deque[tuple[Input, str]] = deque()
        self._spent = 0.0
        self._since: float | None = None
        """When the one that is being tried was taken."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, one: Input, title: str) -> None:
        """An input has brought a title up."""
        self._waiting.append((one, title))

    def take(self) -> tuple[Input, str] | None:
        """One that may be tried now, until :meth:`done`; at most one at a time."""
        now = time.monotonic()
        share = _SHARE * self._jobs * (now - self._begun)
        if not self._waiting or self._since is not None or self._spent > share:
            return None
        self._since = now
        return self._waiting.popleft()

    def done(self) -> None:
        """The one that was taken has been tried."""
        assert self._since is not None
        self._spent += time.monotonic() - self._since
        self._since = None

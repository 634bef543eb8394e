"""Schedules more trials of findings, and limits their share of the guests' time.

Minimizing and retrying a title costs some 15 guests, the time of hundreds of inputs. A run with an
empty corpus would otherwise do little else.
"""

from __future__ import annotations

import time
from collections import deque

from emu.instruments.fuzz.mutate import Input

_TIME_FRACTION = 0.2
"""Limit of the time for more trials, as a fraction of the guests' time."""


class Later:
    """Queue of titles for more trials, oldest first. Not thread-safe."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._begun = time.monotonic()
        self._waiting: deque[tuple[Input, str]] = deque()
        self._spent = 0.0
        self._since: float | None = None
        """Start of the current trial."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, one: Input, title: str) -> None:
        """Queue an input that showed a title."""
        self._waiting.append((one, title))

    def next_title(self) -> tuple[Input, str] | None:
        """Return the next title if the time budget allows; else None.

        Return None too while a trial is under way: call :meth:`done` after each one.
        """
        now = time.monotonic()
        budget = _TIME_FRACTION * self._jobs * (now - self._begun)
        if not self._waiting or self._since is not None or self._spent > budget:
            return None
        self._since = now
        return self._waiting.popleft()

    def done(self) -> None:
        """Account for the time of the trial that ended."""
        assert self._since is not None
        self._spent += time.monotonic() - self._since
        self._since = None

"""Clock that the caller controls. Implements :class:`emu.device.ports.Clock`."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from emu.device.rounds.budget import Budget


class HandClock:
    """Clock that advances on request; all times are nanoseconds."""

    def __init__(self) -> None:
        self.ns = 1_000_000_000
        self._timers: list[tuple[int, int, HandTimer]] = []
        self._order = count()
        self.budget = Budget()

    def now_ns(self) -> int:
        """Return the current time, from an arbitrary origin."""
        return self.ns

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> HandTimer:
        """Schedule ``callback`` for the :meth:`advance` that reaches its time."""
        timer = HandTimer(callback)
        heapq.heappush(self._timers, (self.ns + delay_ns, next(self._order), timer))
        return timer

    def waiting(self) -> int:
        """Return the number of pending calls."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def advance(self, ns: int) -> None:
        """Advance the time by ``ns``, making the calls that become due in order of time.

        Each call sees its own time and has a new round's budget. Calls that they add are made as
        well, if due. Cancelled ones are skipped; 0 makes those that are due now.
        """
        end = self.ns + ns
        self.budget.begin()
        while self._timers and self._timers[0][0] <= end:
            self.ns, _, timer = heapq.heappop(self._timers)
            if timer.callback:
                self.budget.begin()
                timer.callback()
        self.ns = end


class HandTimer:
    """Pending call; ``callback`` is None after it was cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the call."""
        self.callback = None

"""Time in a test's hand."""

from __future__ import annotations

import heapq
from itertools import count

from emu.device.rounds import Round


class HandClock:
    """Time that moves when the test says so."""

    def __init__(self):
        self.ns = 1_000_000_000
        self._timers = []
        self._order = count()
        self.round = Round()

    def now_ns(self):
        return self.ns

    def call_later(self, delay_ns, callback):
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self.ns + delay_ns, next(self._order), timer))
        return timer

    def waiting(self):
        """How many calls are still to come."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def advance(self, ns):
        """Move on, running what is due in its order, each in a round of its own."""
        end = self.ns + ns
        self.round.begin()
        while self._timers and self._timers[0][0] <= end:
            self.ns, _, timer = heapq.heappop(self._timers)
            if timer.callback:
                self.round.begin()
                timer.callback()
        self.ns = end


class _Timer:
    def __init__(self, callback):
        self.callback = callback

    def cancel(self):
        self.callback = None

"""Timers: pending calls, ordered by time."""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections.abc import Callable
from typing import Final

from emu.device.rounds.budget import TIMER_BUDGET, Budget
from emu.device.rounds.costs import STEPS_PER_TIMER
from emu.device.rounds.sizes import CALLS_PER_ROUND

logger = logging.getLogger(__name__)

_COMPACT_AT: Final = 64


class LoopTimer:
    """A pending call: :class:`emu.device.ports.Timer`."""

    __slots__ = ("_queue", "callback")

    def __init__(self, queue: TimerQueue, callback: Callable[[], None]) -> None:
        self._queue = queue
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the call; do nothing after the call was made or cancelled."""
        if self.callback is not None:
            self.callback = None
            self._queue.note_cancelled()


class TimerQueue:
    """Timers on the monotonic clock: :class:`ports.Clock`, for a loop that runs due calls."""

    now_ns = staticmethod(time.monotonic_ns)
    """Returns the nanoseconds since a fixed moment; each completion calls it without a frame."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, LoopTimer]] = []
        self._order = itertools.count()
        self._cancelled = 0
        self.budget = Budget()

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> LoopTimer:
        """Call ``callback`` once, not earlier than ``delay_ns`` from now.

        Return the cancellable call. A negative delay counts as 0. Even then the call is made by
        :meth:`run_due` only.
        """
        timer = LoopTimer(self, callback)
        heapq.heappush(self._heap, (self.now_ns() + max(delay_ns, 0), next(self._order), timer))
        return timer

    def run_due(self) -> bool:
        """Make the calls that are due now; return False if no timer was due.

        Calls that a callback adds wait for the next round. When the round's budget is used, the
        later due ones wait as well. True may also stand for cancelled timers only. An exception of
        a call is logged, and does not affect the others.
        """
        if not self._heap or self._heap[0][0] > (now := self.now_ns()):
            return False
        new, budget, calls_left = next(self._order), self.budget, CALLS_PER_ROUND
        while self._heap and self._heap[0][0] <= now and self._heap[0][1] < new:
            if calls_left <= 0 and budget.exhausted(TIMER_BUDGET):
                break
            timer = heapq.heappop(self._heap)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._cancelled -= 1
                continue
            calls_left -= 1
            budget.charge(STEPS_PER_TIMER)
            try:
                callback()
            except Exception:
                logger.exception("internal error in a timer's call")
        return True

    def next_ns(self) -> int | None:
        """Return the nanoseconds until the next timer (0: due), or None without one."""
        return max(self._heap[0][0] - self.now_ns(), 0) if self._heap else None

    def note_cancelled(self) -> None:
        """Count a cancelled timer; remove all of them from the heap when over 64 and the majority.

        Timers may be set and cancelled for every packet.
        """
        self._cancelled += 1
        if self._cancelled > _COMPACT_AT and 2 * self._cancelled > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

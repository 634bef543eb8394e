"""Infrequent polling of queues in ERR, which get receive WQEs without a doorbell.

A driver may leave any number of queues in ERR, for any time. An idle queue therefore has no timer
of its own: one timer polls a limited number of them per interval, at a constant cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emu.device.ports import Clock, Timer
from emu.device.rounds.sizes import POLLS_PER_INTERVAL

INTERVAL_NS: Final = 1_000_000_000


class ErrorQueuePoller:
    """The queues of one function that wait for a poll, the longest-waiting first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[PendingPoll, None] = {}
        self._timer: Timer | None = None

    def add(self, call: Callable[[], None]) -> Timer:
        """Call ``call`` once, INTERVAL_NS or later from now; return the timer that cancels it.

        One timer serves all queues, POLLS_PER_INTERVAL of them each time, the longest-waiting
        first.
        """
        look = PendingPoll(self, call)
        self._waiting[look] = None
        self._set_timer()
        return look

    def discard(self, look: PendingPoll) -> None:
        """Remove a cancelled poll; stop the common timer with the last one.

        No effect if it has run.
        """
        self._waiting.pop(look, None)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        """Make up to POLLS_PER_INTERVAL pending calls; start the timer again if others are left."""
        self._timer = None
        for look in [look for look, _ in zip(self._waiting, range(POLLS_PER_INTERVAL))]:
            if look in self._waiting:  # an earlier call may have cancelled it
                del self._waiting[look]
                look.call()
        self._set_timer()

    def _set_timer(self) -> None:
        """Start the timer, unless no poll is pending or the timer already runs.

        A call in :meth:`_run` may have started it already.
        """
        if self._waiting and self._timer is None:
            self._timer = self._clock.call_later(INTERVAL_NS, self._run)


class PendingPoll:
    """One pending poll; implements :class:`emu.device.ports.Timer`."""

    __slots__ = ("_poller", "call")

    def __init__(self, poller: ErrorQueuePoller, call: Callable[[], None]) -> None:
        self._poller = poller
        self.call = call

    def cancel(self) -> None:
        """Cancel the poll."""
        self._poller.discard(self)

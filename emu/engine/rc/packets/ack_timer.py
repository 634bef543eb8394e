"""The timers of a requester: ACK timeout, early retransmission, the pause after an RNR NAK.

One timer runs while anything is unacknowledged. Progress only moves the deadline; the timer itself
is not restarted for every packet. Where the adapter retransmits adaptively (``roce_accl``), it does
not wait for the whole timeout, which is seconds with rdma_cm: it tries again as soon as a response
is later than responses are, each time waiting twice as long. Only the timeout counts as a retry.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.engine.rc.packets.round_trip import RoundTrip
from emu.engine.rc.timers import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from emu.ports import Clock, Timer

MOST_DOUBLINGS = 2
"""A requester may wait up to four times the time of the code (IBTA 9.7.6.1.3). It does so from the
third time on: a peer that shares a processor with us needs it."""


class AckTimer:
    """The timers of one requester. The clock calls the callbacks.

    ``on_timeout`` tells whether it was the ACK timeout, and returns whether to go on waiting.
    """

    __slots__ = (
        "_clock", "_due_ns", "_is_awaiting", "_is_overdue", "_on_ready", "_on_timeout", "_pause",
        "_round_trip", "_since_ns", "_timeout_ns", "_timeouts", "_timer",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        on_timeout: Callable[[bool], bool],
        on_ready: Callable[[], None],
        round_trip: RoundTrip | None = None,
    ) -> None:
        """``round_trip`` is what responses take, if the adapter retransmits adaptively."""
        self._clock = clock
        self._on_timeout = on_timeout
        self._on_ready = on_ready
        self._round_trip = round_trip
        self._timer: Timer | None = None
        self._pause: Timer | None = None
        self._is_awaiting = False
        """A response is due."""
        self._since_ns = self._due_ns = self._timeout_ns = 0
        self._timeouts = 0
        self._is_overdue = False

    @property
    def is_adaptive(self) -> bool:
        """Whether it tries again before the timeout."""
        return self._round_trip is not None

    @property
    def is_paused(self) -> bool:
        """Whether the pause after an RNR NAK is not over yet."""
        return self._pause is not None

    def watch(self, code: int, psn: int | None = None) -> None:
        """A response is due; ``code`` is the queue pair's timeout, 0 for none.

        ``psn`` is given when packets before it were sent, the last of which wants a response.
        """
        self._timeout_ns = ACK_TIMEOUT_UNIT_NS << code if code else 0
        now = self._clock.now_ns()
        if psn is not None and self._round_trip is not None:
            self._round_trip.sent(psn, now)
        if not self._is_awaiting:
            self._is_awaiting = True
            self._since_ns = max(now, self._since_ns)
        if code:
            self._set()

    def progress(self, una: int, *, is_all: bool) -> None:
        """Packets before ``una`` are acknowledged; ``is_all``: no response is due any more."""
        now = self._clock.now_ns()
        if self._round_trip is not None:
            self._round_trip.acknowledged(una, now)
        self._is_awaiting = not is_all
        self._timeouts = 0
        self._since_ns = now

    def restart(self, pause_ns: int = 0) -> None:
        """Wait anew from now on, or from the end of a pause."""
        self._since_ns = self._clock.now_ns() + pause_ns

    def resend(self, sent: int, *, are_dropped: bool) -> None:
        """Packets before ``sent`` will be sent again; ``are_dropped``: none of them has arrived."""
        if self._round_trip is None:
            return
        if are_dropped:
            self._round_trip.dropped()
        else:
            self._round_trip.resend(sent)

    def pause(self, code: int) -> None:
        """RNR NAK: pause for the time of this timer code (9.7.5.2.8)."""
        self._pause = self._clock.call_later(RNR_NAK_NS[code], self._go_on)
        self.restart(RNR_NAK_NS[code])

    def stop(self) -> None:
        """Cancel both timers."""
        for timer in (self._pause, self._timer):
            if timer is not None:
                timer.cancel()
        self._pause = self._timer = None
        self._is_overdue = self._is_awaiting = False
        self._timeouts = 0
        if self._round_trip is not None:
            self._round_trip.dropped()

    def _go_on(self) -> None:
        self._pause = None
        self._on_ready()

    # -- when

    @property
    def _deadline_ns(self) -> int:
        return self._since_ns + (self._timeout_ns << min(self._timeouts, MOST_DOUBLINGS))

    def _next_ns(self) -> int:
        """When to look: at the next early try, or at the deadline."""
        if self._round_trip is None or self._timeouts:
            return self._deadline_ns
        return min(self._since_ns + self._round_trip.patience_ns, self._deadline_ns)

    def _set(self) -> None:
        """Have the timer fire when it is time to look, or earlier."""
        due = self._next_ns()
        if self._timer is not None:
            if self._due_ns <= due:
                return
            self._timer.cancel()
        self._due_ns = due
        self._timer = self._clock.call_later(max(due - self._clock.now_ns(), 0), self._look)

    def _look(self) -> None:
        """The timer fired: it is time, or progress has moved the time.

        This process may itself be late. So once overdue, it first reads the packets that have come
        in by now, and looks again before it reports a timeout.
        """
        self._timer = None
        was_overdue, self._is_overdue = self._is_overdue, False
        if not self._is_awaiting:
            return
        if self._next_ns() > self._clock.now_ns():
            self._set()
        elif not was_overdue:
            self._is_overdue = True
            self._timer = self._clock.call_later(0, self._look)
        elif self._report():
            self._set()

    def _report(self) -> bool:
        is_timeout = self._deadline_ns <= self._clock.now_ns()
        if is_timeout:
            self._timeouts += 1
        elif self._round_trip is not None:
            self._round_trip.tries += 1
        return self._on_timeout(is_timeout)

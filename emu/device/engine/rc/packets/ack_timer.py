"""Timers of a requester: ACK timeout, probes before it, and the pause after an RNR NAK.

A timer runs while any packet is unacknowledged. Progress only moves the deadline; the timer is not
restarted for every packet, and may fire when no response is due any more.

The ACK timeout is hundreds of milliseconds or, with rdma_cm, seconds. Long before it, when a
response takes longer than usual, the requester probes which packets have arrived. Only the timeout
counts as a retry.

One packet at a time is timed. The response to a retransmitted packet is ambiguous and not counted
(RFC 6298, 3). Each probe doubles the wait, until a response is timed again (5.5 to 5.7) or a probe
is answered within the usual time. A slow peer therefore gets no more probes.
"""

from __future__ import annotations

from typing import Final, Protocol

from emu.device.engine.rc.timers import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from emu.device.port.packet import precedes
from emu.device.ports import Clock, Timer
from layouts.wire.bth import PSN_HALF, PSN_MASK

TIMEOUT_FACTOR: Final = 4
"""Factor of the timeout code's time: a requester may wait four times as long (IBTA 9.7.6.1.3).

A peer that shares a processor with this process needs it.
"""
MIN_NS: Final = 10_000_000
"""Lower limit: the peer's process may share a processor with others."""
FIRST_SHIFT: Final = 2
"""Wait before the first timed response, as a right shift of the ACK timeout."""
MAX_DOUBLINGS: Final = 16


class AckWaiter(Protocol):
    """Owner of the timers, which the clock calls."""

    def timed_out(self) -> bool:
        """Handle the ACK timeout; return whether to continue waiting."""

    def ask(self) -> None:
        """Probe which packets have arrived: a response is late."""

    def go_on(self) -> None:
        """Continue after the pause of an RNR NAK."""


class RoundTrip:
    """Smoothed round-trip time of one queue pair's requests."""

    __slots__ = (
        "_asked_ns", "_began_ns", "_deviation_ns", "_doublings", "_mean_ns", "_resent", "_timed",
        "newest",
    )  # fmt: skip

    def __init__(self) -> None:
        self._timed: int | None = None
        """PSN behind the packet that is timed."""
        self._began_ns = 0
        self.newest: int | None = None
        """PSN behind the packet that was sent last."""
        self._asked_ns: int | None = None
        """Time of the last probe; None without an unanswered one."""
        self._resent: int | None = None
        """PSN before which packets may arrive twice; None when all of those are acknowledged."""
        self._doublings = 0
        self._mean_ns = self._deviation_ns = 0

    def patience_ns(self, timeout_ns: int) -> int:
        """Return the time to wait after the last progress; ``timeout_ns`` is the ACK timeout."""
        usual = self._mean_ns + 4 * self._deviation_ns or timeout_ns >> FIRST_SHIFT
        return (usual if usual > MIN_NS else MIN_NS) << self._doublings

    def sent(self, psn: int, now_ns: int) -> None:
        """Record that packets before ``psn`` were sent now; the last one requests a response.

        The packet is timed if no other is, and if no retransmission makes its response ambiguous.
        """
        self.newest = psn
        if self._timed is None and (self._resent is None or precedes(self._resent, psn)):
            self._timed, self._began_ns = psn, now_ns

    def acknowledged(self, una: int, now_ns: int) -> None:
        """Record that all packets before ``una`` are acknowledged.

        The timed packet, if among them, updates the smoothed mean and deviation (RFC 6298), and
        ends the doubling of the wait. A probe answered within the usual time ends it as well.
        """
        timed = self._timed
        if timed is not None and not 0 < timed - una & PSN_MASK < PSN_HALF:
            self._timed, self._doublings, mean = None, 0, self._mean_ns
            took_ns = now_ns - self._began_ns or 1
            if mean:
                error = took_ns - mean
                self._deviation_ns += (abs(error) - self._deviation_ns) // 4
                self._mean_ns = mean + error // 8
            else:
                self._mean_ns, self._deviation_ns = took_ns, took_ns // 2
        if self._asked_ns is not None:
            if now_ns - self._asked_ns <= self._mean_ns + 4 * self._deviation_ns:
                self._doublings = 0
            self._asked_ns = None
        if self._resent is not None and not precedes(una, self._resent):
            self._resent = None

    def resent(self, psn: int) -> None:
        """Record that packets before ``psn`` may arrive twice."""
        self._timed, self._resent = None, psn

    def went_back(self, psn: int, now_ns: int) -> None:
        """Time the retransmission of the packet before ``psn``.

        The packet was lost, so its response is not ambiguous.
        """
        self._timed, self._began_ns, self._resent = psn, now_ns, None

    def asked(self, psn: int, now_ns: int) -> None:
        """Record a probe: some of the packets before ``psn`` were sent again.

        The wait before the next probe doubles, and the timed packet is given up.
        """
        self._asked_ns = now_ns
        self._doublings = min(self._doublings + 1, MAX_DOUBLINGS)
        self.resent(psn)

    def forget_packets(self) -> None:
        """Forget the PSNs of a stopped queue pair."""
        self._timed = self.newest = self._resent = self._asked_ns = None


class AckTimer:
    """Timers of one requester."""

    __slots__ = (
        "_clock", "_code", "_due_ns", "_has_moved", "_is_due", "_is_overdue", "_least_ns",
        "_now_ns", "_owner", "_pause", "_since_ns", "_timeout_ns", "_timer", "is_paused",
        "round_trip",
    )  # fmt: skip

    def __init__(self, clock: Clock, owner: AckWaiter) -> None:
        self._clock = clock
        self._now_ns = clock.now_ns
        self._owner = owner
        self.round_trip = RoundTrip()
        self._timer: Timer | None = None
        self._due_ns = 0
        """Time at which the timer fires."""
        self._pause: Timer | None = None
        self.is_paused = False
        """Whether the pause after an RNR NAK is running."""
        self._is_due = False
        """Whether a response is due."""
        self._since_ns = self._code = self._timeout_ns = 0
        self._least_ns = 0
        """Lower limit of every wait: a timer that fires before its end need not be set again."""
        self._has_moved = False
        """Whether the wait has restarted since the timer was set."""
        self._is_overdue = False

    def watch(self, code: int, psn: int) -> None:
        """Start waiting for a response, unless one is awaited already; ``code`` 0 means no timeout.

        The timeout is TIMEOUT_FACTOR times the code's time. Packets before ``psn`` were sent; the
        last one requests an ACK, and is timed for the round-trip time.
        """
        if not code:
            return
        now_ns, round_trip = self._now_ns, self.round_trip
        now = now_ns()
        if psn != round_trip.newest:
            round_trip.sent(psn, now)
        if not self._is_due:
            self._is_due = self._has_moved = True
            self._since_ns = now
            if code != self._code:
                self._code, self._timeout_ns = code, TIMEOUT_FACTOR * (ACK_TIMEOUT_UNIT_NS << code)
                self._least_ns = min(MIN_NS, self._timeout_ns)
        if self._has_moved and (
            self._timer is None or self._due_ns > self._since_ns + self._least_ns
        ):
            self._set()

    def progress(self, una: int, *, is_all: bool) -> None:
        """Record that packets before ``una`` are acknowledged, and restart the wait.

        ``is_all`` means that no response is due any more. The next request's time then starts when
        the request is sent.
        """
        now_ns = self._now_ns
        now = now_ns()
        self.round_trip.acknowledged(una, now)
        self._since_ns, self._has_moved = now, True
        self._is_due = not is_all

    def restart(self, pause_ns: int = 0) -> None:
        """Restart the wait: from now on, or from the end of a pause."""
        self._since_ns, self._has_moved = self._clock.now_ns() + pause_ns, True

    def pause(self, code: int) -> None:
        """Set ``is_paused`` for the time of an RNR NAK's timer code (9.7.5.2.8).

        Then the owner's ``go_on`` is called. The ACK timeout starts at the end of the pause.
        """
        self._pause = self._clock.call_later(RNR_NAK_NS[code], self._go_on)
        self.is_paused = True
        self.restart(RNR_NAK_NS[code])

    def stop(self) -> None:
        """Cancel ACK timer and pause; ``go_on`` is not called.

        The smoothed round-trip time stays.
        """
        for timer in (self._pause, self._timer):
            if timer is not None:
                timer.cancel()
        self._pause = self._timer = None
        self.is_paused = False
        self._is_due = self._is_overdue = False
        self.round_trip.forget_packets()

    def _go_on(self) -> None:
        self._pause = None
        self.is_paused = False
        self._owner.go_on()

    # -- when

    @property
    def _deadline_ns(self) -> int:
        return self._since_ns + self._timeout_ns

    def _next_ns(self) -> int:
        """Return the time of the next check: the time to probe, or the deadline."""
        patience = self.round_trip.patience_ns(self._timeout_ns)
        return self._since_ns + min(patience, self._timeout_ns)

    def _set(self) -> None:
        """Set the timer to the time of the next check, or keep an earlier one."""
        due, self._has_moved = self._next_ns(), False
        if self._timer is not None:
            if self._due_ns <= due:
                return
            self._timer.cancel()
        self._due_ns = due
        self._timer = self._clock.call_later(max(due - self._clock.now_ns(), 0), self._check)

    def _check(self) -> None:
        """Call the owner's ``ask`` or ``timed_out`` if the deadline has really passed.

        Progress may have moved the deadlines; the timer is then set again. The process may itself
        be late: once overdue, it first polls for received packets, and checks again before anything
        is retransmitted. If ``timed_out`` returns False, the timer ends.
        """
        self._timer = None
        was_overdue, self._is_overdue = self._is_overdue, False
        if not self._is_due:
            return
        now = self._clock.now_ns()
        if self._next_ns() > now:
            self._set()
        elif not was_overdue:
            self._is_overdue = True
            self._due_ns = now
            self._timer = self._clock.call_later(0, self._check)
        elif self._deadline_ns > now:
            self._owner.ask()
            self._set()
        elif self._owner.timed_out():
            self._set()
        else:
            self._is_due = False

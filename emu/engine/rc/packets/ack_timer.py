"""The timers of a requester: ACK timeout, and the pause after an RNR NAK.

A timer runs while anything is unacknowledged. Progress only moves the deadline; the timer itself
is not restarted for every packet, and may fire when no response is due any more.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.engine.rc.timers import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from emu.ports import Clock, Timer

TIMEOUT_FACTOR = 4
"""A requester may wait up to four times the time of the code (IBTA 9.7.6.1.3), and a peer that
shares a processor with us needs it."""


class AckTimer:
    """The timers of one requester. ``on_timeout`` and ``on_ready`` are called by the clock."""

    __slots__ = (
        "_clock",
        "_deadline",
        "_is_due",
        "_is_overdue",
        "_on_ready",
        "_on_timeout",
        "_pause",
        "_timeout_ns",
        "_timer",
    )

    def __init__(
        self, clock: Clock, on_timeout: Callable[[], bool], on_ready: Callable[[], None]
    ) -> None:
        """``on_timeout`` returns whether to go on waiting."""
        self._clock = clock
        self._on_timeout = on_timeout
        self._on_ready = on_ready
        self._timer: Timer | None = None
        self._pause: Timer | None = None
        self._deadline = 0
        self._timeout_ns = 0
        self._is_due = False
        """A response is due."""
        self._is_overdue = False

    @property
    def is_paused(self) -> bool:
        """Whether the pause after an RNR NAK is not over yet."""
        return self._pause is not None

    def watch(self, code: int) -> None:
        """A response is due; ``code`` is the queue pair's timeout, 0 for none."""
        if not code:
            return
        if not self._is_due:
            self._is_due = True
            self._timeout_ns = TIMEOUT_FACTOR * (ACK_TIMEOUT_UNIT_NS << code)
            self.restart()
        if self._timer is None:
            self._set()

    def rest(self) -> None:
        """No response is due any more; the time of the next request begins when it is sent."""
        self._is_due = False

    def restart(self, pause_ns: int = 0) -> None:
        """Move the deadline: a whole timeout from now, or from the end of a pause."""
        self._deadline = self._clock.now_ns() + pause_ns + self._timeout_ns

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
        self._is_due = self._is_overdue = False

    def _go_on(self) -> None:
        self._pause = None
        self._on_ready()

    def _set(self) -> None:
        self._timer = self._clock.call_later(self._deadline - self._clock.now_ns(), self._look)

    def _look(self) -> None:
        """The timer fired: the deadline has passed, or progress has moved it.

        This process may itself be late. So once overdue, it first reads the packets that have come
        in by now, and looks again before it reports a timeout.
        """
        self._timer = None
        was_overdue, self._is_overdue = self._is_overdue, False
        if not self._is_due:
            return
        if self._deadline > self._clock.now_ns():
            self._set()
        elif not was_overdue:
            self._is_overdue = True
            self._timer = self._clock.call_later(0, self._look)
        elif self._on_timeout():
            self._set()
        else:
            self.rest()

"""Containment of unexpected exceptions: each stops only the function in which it was raised.

An exception may occur in the function's poll or timers, during a register access of the driver, or
while an arriving packet is processed. The handler logs it once with its traceback, and the function
goes down as after an assert in its firmware: the health buffer shows a fatal syndrome, and the
driver recovers. The other functions of the process continue. In the tests such an exception is a
failure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from emu.device.ports import Clock, Timer
from emu.device.state.error_queue_poller import ErrorQueuePoller


class Owner(Protocol):
    """The object that is responsible for some work: a function, or a connection."""

    @property
    def has_failed(self) -> bool:
        """Whether the owner has failed, and its work has stopped."""

    def fail(self) -> None:
        """Stop permanently because of the current exception."""


class Lifetime:
    """The owner of the work of a function's objects, until all of them are dropped at once."""

    __slots__ = ("_owner", "clock", "error_queue_poller", "is_over")

    def __init__(self, clock: Clock, owner: Owner) -> None:
        """Begin with ``clock``, which contains no exceptions; ``owner`` is the function."""
        self._owner = owner
        self.is_over = False
        self.clock: Clock = ContainedClock(clock, self)
        """Clock of the objects."""
        self.error_queue_poller = ErrorQueuePoller(self.clock)
        """Polls queues in ERR that have had no new WQEs for a while."""

    @property
    def has_failed(self) -> bool:
        """Whether this work has stopped."""
        return self.is_over or self._owner.has_failed

    def fail(self) -> None:
        """Fail the function."""
        self._owner.fail()


class ContainedClock:
    """Implements :class:`emu.device.ports.Clock` for one owner; exceptions in its calls fail it."""

    def __init__(self, clock: Clock, owner: Owner) -> None:
        self.bare = clock
        """The clock without containment of exceptions."""
        self.now_ns: Callable[[], int] = clock.now_ns
        self.budget = clock.budget
        self._call_later = clock.call_later
        self._owner = owner

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` once, ``delay_ns`` from now, unless the owner has failed by then.

        An exception in ``callback`` fails the owner and does not reach the loop.
        """
        return self._call_later(delay_ns, partial(contain, self._owner, callback))


def contain(owner: Owner, call: Callable[[], object]) -> None:
    """Make ``call`` unless its owner has failed; any Exception in it calls ``owner.fail``.

    The exception does not propagate, and the result of ``call`` is dropped.
    """
    if owner.has_failed:
        return
    try:
        call()
    except Exception:
        owner.fail()


RESTART_NS = 10_000_000_000
RESTART_WHEN_SEEN_NS: Final = 500_000_000
"""Delay of the restart, in ns. A driver polls the health buffer every two to three seconds
(core/health.c: poll_health). Then it waits two seconds for a disabled interface, which indicates
that the firmware has restarted (core/health.c: mlx5_error_sw_reset).
"""


class Recovery:
    """Restarts a failed function once its driver has noticed the failure, or after a timeout."""

    def __init__(self, clock: Clock, restart: Callable[[], None]) -> None:
        self._clock = clock
        self._restart = restart
        self._timer: Timer | None = None
        self._is_seen = False

    def begin(self) -> None:
        """Restart the function RESTART_NS from now; replaces a pending restart."""
        self._set(RESTART_NS)

    def seen(self) -> None:
        """Shorten the wait to RESTART_WHEN_SEEN_NS: the driver has read the failure.

        Only the first call after a failure counts; the driver reads the health buffer repeatedly.
        """
        if not self._is_seen:
            self._is_seen = True
            self._set(RESTART_WHEN_SEEN_NS)

    def end(self) -> None:
        """Cancel the pending restart after a reset of the function, and forget that it was seen."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_seen = False

    def _set(self, delay_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_ns, self._restart)

"""Seldom looks at queues in ERR, which get receive requests without a doorbell.

A driver may leave as many queues in ERR as there are numbers, for as long as it likes. A queue of
which nothing has been heard for a while is therefore not looked at by a timer of its own: all of
them take turns, so that they cost the same however many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emu.device.ports import Clock, Timer
from emu.device.rounds.sizes import POLLS_PER_INTERVAL

INTERVAL_NS: Final = 1_000_000_000


class ErrorQueuePoller:
    """The queues of one function that wait to be looked at, the longest-waiting first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[Look, None] = {}
        self._timer: Timer | None = None

    def add(self, call: Callable[[], None]) -> Timer:
        """Call ``call`` once, after INTERVAL_NS or, with many others, later."""
        look = Look(self, call)
        self._waiting[look] = None
        self._set_timer()
        return look

    def discard(self, look: Look) -> None:
        """Nobody wants this look any more."""
        self._waiting.pop(look, None)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self._timer = None
        for look in [look for look, _ in zip(self._waiting, range(POLLS_PER_INTERVAL))]:
            if look in self._waiting:  # one before it may have ended it
                del self._waiting[look]
                look.call()
        self._set_timer()

    def _set_timer(self) -> None:
        """Have a timer while somebody waits. A call in :meth:`_run` may have set it already."""
        if self._waiting and self._timer is None:
            self._timer = self._clock.call_later(INTERVAL_NS, self._run)


class Look:
    """One look that is to come; implements :class:`emu.device.ports.Timer`."""

    __slots__ = ("_looks", "call")

    def __init__(self, looks: ErrorQueuePoller, call: Callable[[], None]) -> None:
        self._looks = looks
        self.call = call

    def cancel(self) -> None:
        """Do not look."""
        self._looks.discard(self)

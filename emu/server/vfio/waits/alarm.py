"""An alarm that ends blocking writes to a client's eventfds.

O_NONBLOCK belongs to the open file, which is shared with the client (fcntl(2)). A client that
clears the flag and fills the counter would block the whole process for ever. The alarm's signal
ends such a write (EINTR) within 40 ms.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SECONDS: Final = 0.04
_AGAIN_NS: Final = 20_000_000
"""Age above which an alarm is set again: at most fifty times a second, and never when idle."""


class Alarm:
    """The process's interval timer; ALARM is its only instance."""

    def __init__(self) -> None:
        self._is_ready = False
        self._set_ns = 0

    @contextmanager
    def ready(self, wake: Callable[[], None]) -> Iterator[None]:
        """Enable :meth:`set` while the body runs; only in the main thread.

        Handles SIGALRM by ``wake``, which ends a wait: Python restarts an interrupted system call
        with the whole time limit, which would make timers late. Enables nothing when SIGALRM
        already has another handler. The end stops the timer and restores the default handling.
        """

        def ring(_signum: int, _frame: FrameType | None) -> None:
            wake()

        if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGALRM, ring)
        self._is_ready = True
        try:
            yield
        finally:
            self._is_ready = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def set(self) -> None:
        """Set the alarm: it ends a blocking system call that starts now (EINTR after 20 to 40 ms).

        Does nothing outside of :meth:`ready`, or within 20 ms of the last setting.
        """
        if self._is_ready and (now := time.monotonic_ns()) - self._set_ns > _AGAIN_NS:
            self._set_ns = now
            signal.setitimer(signal.ITIMER_REAL, _SECONDS)


ALARM: Final = Alarm()
"""The only interval timer of the process."""

"""An alarm that ends writes to a client's eventfds that block, as a client can make them.

O_NONBLOCK belongs to the open file, which we share with the client (fcntl(2)): a client that clears
the flag and fills the counter would block the whole process for ever. The alarm's signal ends such
a write (EINTR) within a second.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SECONDS: Final = 1.0
_AGAIN_NS: Final = 500_000_000
"""An alarm older than this is set anew: at most twice a second, and never when idle."""


class Alarm:
    """The process's interval timer. Its only instance is ALARM."""

    def __init__(self) -> None:
        self._is_ready = False
        self._set_ns = 0

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Inside this context :meth:`set` works. Only in the main thread: the signal interrupts it.

        Does nothing when SIGALRM already has another handler.
        """
        if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGALRM, _nothing)
        self._is_ready = True
        try:
            yield
        finally:
            self._is_ready = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def set(self) -> None:
        """A system call that begins now and blocks ends with EINTR after 0.5 to 1 s."""
        if self._is_ready and (now := time.monotonic_ns()) - self._set_ns > _AGAIN_NS:
            self._set_ns = now
            signal.setitimer(signal.ITIMER_REAL, _SECONDS)


def _nothing(_signum: int, _frame: FrameType | None) -> None:
    """Does nothing: the signal only has to interrupt the system call."""


ALARM: Final = Alarm()
"""A process has one such timer."""

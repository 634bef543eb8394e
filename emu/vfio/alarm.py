"""An alarm for writes to a client's eventfds: they must not block, and a client can make them.

Whether a write blocks is a property of the open file, which the client shares (fcntl(2),
O_NONBLOCK): one that takes our setting back and fills the counter would hold up everybody in the
process for ever. The alarm's signal ends such a write (EINTR) within a second.
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
"""An alarm that was set so long ago is set anew: at most twice a second, and never when idle."""


class Alarm:
    """The process's interval timer. There is one: ALARM."""

    def __init__(self) -> None:
        self._is_ready = False
        self._set_ns = 0

    @contextmanager
    def ready(self) -> Iterator[None]:
        """While inside, :meth:`set` works. Only in the main thread, which the signal interrupts.

        Where somebody else waits for SIGALRM, it stays theirs.
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
        """A system call that begins now and blocks ends with EINTR in half a second to one."""
        if self._is_ready and (now := time.monotonic_ns()) - self._set_ns > _AGAIN_NS:
            self._set_ns = now
            signal.setitimer(signal.ITIMER_REAL, _SECONDS)


def _nothing(_signum: int, _frame: FrameType | None) -> None:
    """That the signal has come is all it is for."""


ALARM: Final = Alarm()
"""A process has one such timer."""

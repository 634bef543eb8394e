"""Looking again for a moment before a wait sleeps, where processors are idle.

Who sleeps is woken by the sender's system call, on a processor that has gone idle and has to come
back: for a small message that takes as long as all that is done about it. So a wait looks for the
next message itself while messages come one soon after the other. It sleeps at once again when none
came in time, and where others want the processor, as a guest does that waits busily.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Final

SPIN_NS: Final = 100_000
"""How long a wait looks before it sleeps. An answer from another process takes 50 to 80 us."""
SOON_NS: Final = 250_000
"""Only a wait that begins so soon after the one before it looks: an idle server's never do."""
ASK_AGAIN_NS: Final = 5_000_000
"""How long an answer to the question counts whether a processor is free."""
MAX_MISSES: Final = 4
"""A miss lets the next two waits sleep at once, each further one twice as many, up to 16."""

_LOAD: Final = "/proc/loadavg"
_IDLE: Final = 2
"""Processors that have to be idle."""


class Spin:
    """Whether waits look, from what has become of those before."""

    def __init__(
        self,
        is_free: Callable[[], bool] | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._is_free = processor_is_free if is_free is None else is_free
        self._now_ns = now_ns
        self._began_ns = self._asked_ns = now_ns() - ASK_AGAIN_NS
        self._may = False
        self._misses = self._sleeps = 0

    def look(self, poll: select.poll, timeout_ns: int | None) -> list[tuple[int, int]]:
        """What ``poll`` finds within a moment; nothing when the wait has to sleep.

        ``timeout_ns`` is the wait's own, None for ever.
        """
        now = self._now_ns()
        is_soon, self._began_ns = now - self._began_ns < SOON_NS, now
        if not is_soon or timeout_ns == 0:
            return []
        if self._sleeps:
            self._sleeps -= 1
            return []
        if now - self._asked_ns >= ASK_AGAIN_NS:
            self._asked_ns, self._may = now, self._is_free()
        if not self._may:
            return []
        end = now + (SPIN_NS if timeout_ns is None else min(timeout_ns, SPIN_NS))
        while now < end:
            if ready := poll.poll(0):
                self._misses = 0
                return ready
            now = self._now_ns()
        self._misses = min(self._misses + 1, MAX_MISSES)
        self._sleeps = 1 << self._misses
        return []


def processor_is_free(path: str = _LOAD) -> bool:
    """Whether two more of the processors that this process may use are idle while this one looks.

    One alone is a guest's that waits for the very answer and is about to want it back: with two
    processors and a guest of two, looking made the latency of 2 B 13 % longer. False where the
    system does not tell. Source: proc(5), /proc/loadavg, whose fourth field counts this thread.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        running, _, _ = os.read(fd, 64).split()[3].partition(b"/")
        return int(running) + _IDLE <= len(os.sched_getaffinity(0))
    except (IndexError, ValueError, OSError):
        return False
    finally:
        os.close(fd)

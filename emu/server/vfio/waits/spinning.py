"""Spinning before a wait sleeps, if processors are idle.

The sender's system call wakes a sleeping process on a processor that is idle and must resume. For a
small message this takes as long as all its other work. While messages arrive in quick succession, a
wait therefore spins for the next one. After misses, waits sleep at once again. Waits also sleep at
once where other threads need the processor, such as a guest that spins.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Final

SPIN_NS: Final = 100_000
"""Time that a wait spins before it sleeps; a reply of another process takes 50 to 80 us."""
SOON_NS: Final = 250_000
"""Maximum time since the last wait for spinning; an idle server's waits are further apart."""
ASK_AGAIN_NS: Final = 5_000_000
"""Time for which the result of ``is_free`` is valid."""
MAX_MISSES: Final = 4
"""Limit of the back-off: after a miss two waits sleep at once, after each further one twice as
many, up to 16."""

_LOAD: Final = "/proc/loadavg"
_IDLE: Final = 2
"""Number of processors that must be idle."""


class Spin:
    """Decides from the outcomes of earlier waits whether a wait spins."""

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

    def spin(self, poll: select.poll, timeout_ns: int | None) -> list[tuple[int, int]]:
        """Return the events that ``poll`` finds within 100 us (or ``timeout_ns``).

        Empty if the wait must sleep. Does not spin for ``timeout_ns`` 0, or more than 250 us after
        the last call. Does not spin either while processors are busy, or for the back-off after
        misses. ``timeout_ns`` None means for ever.
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
    """Return whether two more of this process's processors are idle while this one spins.

    A single idle one belongs to a guest that waits for this very reply. With two processors and a
    guest of two, spinning made the latency of 2 B 13 % longer. False on an unreadable system.
    Source: proc(5), /proc/loadavg, whose fourth field counts this thread.
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

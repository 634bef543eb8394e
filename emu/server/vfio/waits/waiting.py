"""Waits for descriptors with a precise timeout, or for a socket in its receive call.

The receive call costs half of poll() before every receive. The time limit is the socket's
SO_RCVTIMEO, because Python's own ``settimeout`` is a poll() too. The kernel counts SO_RCVTIMEO in
scheduler ticks and may add two (8 ms at 250 Hz), so the last milliseconds of a wait do poll.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Collection
from struct import Struct
from typing import Final

from emu.server.vfio.waits.spinning import Spin

_TIMEVAL: Final = Struct("@ll")
_TICKS_MS: Final = 8
_SHORTEST_MS: Final = 3 * _TICKS_MS
_POLL_STEP_NS: Final = 1_000_000
_FD_SETSIZE: Final = 1024
_FOREVER_MS: Final = 0
_UNKNOWN_MS: Final = -1


def wait_readable(
    poll: select.poll, fds: Collection[int], timeout_ns: int | None
) -> list[tuple[int, int]]:
    """Wait as ``poll.poll()``, with a precise timeout.

    Return (descriptor, events), empty at the timeout. poll() counts in milliseconds; a shorter wait
    uses select(), which counts in microseconds. A short wait therefore watches ``fds`` only, those
    registered for POLLIN, and not those for POLLOUT.
    """
    if timeout_ns is None:
        return poll.poll()
    if 0 < timeout_ns < _POLL_STEP_NS and max(fds, default=0) < _FD_SETSIZE:
        try:
            ready, _, _ = select.select([fd for fd in fds if fd >= 0], (), (), timeout_ns / 1e9)
        except OSError:  # a descriptor is closed, and poll() reports which
            return poll.poll(0)
        return [(fd, select.POLLIN) for fd in ready]
    return poll.poll(-(-timeout_ns // _POLL_STEP_NS))


class Waiter:
    """Decides how a receive call on a blocking socket waits, and can shorten the wait."""

    def __init__(self, sock: socket.socket, spin: Spin | None = None) -> None:
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._spin = Spin() if spin is None else spin
        self._limit_ms = _FOREVER_MS
        self._woken = False

    def prepare(self, timeout_ns: int | None) -> bool:
        """Prepare a receive call that waits up to ``timeout_ns`` (None: for ever).

        Return whether to block. If True, the receive call may block. After the time or earlier, the
        call ends with BlockingIOError; the caller computes the remaining time and calls again. If
        False, the caller must use MSG_DONTWAIT: data may be available, a wait below 24 ms is over,
        or :meth:`wake` was called.
        """
        if self._spin.spin(self._poll, timeout_ns):
            return False
        if timeout_ns is None:
            limit_ms = _FOREVER_MS
        elif timeout_ns < _SHORTEST_MS * 1_000_000:
            if timeout_ns > 0 and not self._woken:
                wait_readable(self._poll, (self._sock.fileno(),), timeout_ns)
            return False
        else:
            # A power of two changes seldom, the remaining time with every message.
            limit_ms = 1 << ((timeout_ns // 1_000_000 - _TICKS_MS).bit_length() - 1)
        if limit_ms != self._limit_ms:
            self._set_limit(limit_ms)
        if self._woken:
            self._woken = False
            self._limit_ms = _UNKNOWN_MS
            return False
        return True

    def wake(self) -> None:
        """Make the current wait, or else the next one, end soon. For signal handlers.

        Python repeats the receive call after a handler (PEP 475); the new limit then ends it. The
        flag covers a handler that runs between setting the limit and the receive call.
        """
        self._woken = True
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(0, 1))

    def _set_limit(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        value = _TIMEVAL.pack(limit_ms // 1000, limit_ms % 1000 * 1000)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)

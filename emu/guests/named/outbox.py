"""Data queued for one client, so that a slow client does not delay the others.

A client that reads too slowly has its commands paused in the guest (:meth:`Job.pause`), like a full
pipe. Output in flight by then is queued here. A client whose queue still exceeds the limit is
disconnected.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

HIGH = 1 << 20
"""Queued bytes above which the client's commands are paused."""
LOW = HIGH // 4
"""Queued bytes below which paused commands resume."""
MAX_BYTES = 64 << 20
"""Limit on queued bytes, far above the output in flight when commands are paused."""


class Outbox:
    """Sends queued data by ``send`` in a separate thread, until it raises OSError or :meth:`close`.

    One thread calls ``hold(True)`` above :data:`HIGH` and ``hold(False)`` below :data:`LOW`.
    """

    def __init__(self, send: Callable[[bytes], None], hold: Callable[[bool], None]) -> None:
        self._send = send
        self._hold = hold
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_full = self._is_held = self._ended = False
        self._changed = threading.Condition()
        for work in (self._work, self._govern):
            threading.Thread(target=work, name="outbox", daemon=True).start()

    def put(self, data: bytes) -> None:
        """Queue data; return at once, also for a slow client.

        Raises OSError after :meth:`close`, and when the queue exceeds 64 MiB, which closes the
        outbox.
        """
        with self._changed:
            if self._size > MAX_BYTES:
                self._end()
            if self._ended:
                raise BrokenPipeError("the client has disconnected, or does not read")
            self._waiting.append(data)
            self._size += len(data)
            self._is_full = self._is_full or self._size > HIGH
            self._changed.notify_all()

    def close(self) -> None:
        """Drop the queue and send no more."""
        with self._changed:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._waiting.clear()
        self._changed.notify_all()

    def _work(self) -> None:
        """Send queued data in the thread until ``send`` raises OSError or the outbox is closed."""
        with contextlib.suppress(OSError):
            while (data := self._next()) is not None:
                self._send(data)
                self._sent(len(data))
        self.close()

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            return None if self._ended else self._waiting.popleft()

    def _sent(self, count: int) -> None:
        """Subtract sent bytes from the queue's size; below :data:`LOW` let the commands resume."""
        with self._changed:
            self._size -= count
            if self._size < LOW:
                self._is_full = False
                self._changed.notify_all()

    def _govern(self) -> None:
        """Call ``hold`` in a separate thread, because a pause may have to wait for the guest."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_full != self._is_held or self._ended)
                if self._ended:
                    return
                self._is_held = self._is_full
            self._hold(self._is_held)

"""What waits to be sent to one client, so that a slow client does not stop those beside it.

A client that reads too slowly has its commands paused in the guest (:meth:`Job.pause`), as a full
pipe would; what is on its way by then waits here. One for whom it still gets too much is dropped.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

HIGH = 1 << 20
"""Bytes that wait when the client's commands are paused."""
LOW = HIGH // 4
"""Bytes that wait when they go on."""
MOST = 64 << 20
"""Far more than is on its way when commands are paused."""


class Outbox:
    """Hands data to ``send`` in a thread of its own, until that raises OSError or :meth:`close`.

    ``hold(True)`` is called when much waits, ``hold(False)`` when it has gone, both by one thread.
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
        """Send it in its turn. Raises OSError when nothing is sent any more."""
        with self._changed:
            if self._size > MOST:
                self._end()
            if self._ended:
                raise BrokenPipeError("the client is gone, or does not read")
            self._waiting.append(data)
            self._size += len(data)
            self._is_full = self._is_full or self._size > HIGH
            self._changed.notify_all()

    def close(self) -> None:
        """Send nothing more."""
        with self._changed:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._waiting.clear()
        self._changed.notify_all()

    def _work(self) -> None:
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
        with self._changed:
            self._size -= count
            if self._size < LOW:
                self._is_full = False
                self._changed.notify_all()

    def _govern(self) -> None:
        """Not in the threads that put and send: a pause may have to wait for the guest."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_full != self._is_held or self._ended)
                if self._ended:
                    return
                self._is_held = self._is_full
            self._hold(self._is_held)

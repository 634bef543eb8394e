"""Unix socket of a client in plain Python, which may run its server while it waits."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable


class AwaitedSocket:
    """Connection to a server on a Unix socket.

    ``step`` is called while data are awaited, so that a server in the same thread runs without
    sleeping. Omit it for a server elsewhere.
    """

    def __init__(
        self, path: str | os.PathLike[str], step: Callable[[], object] | None, timeout: float
    ) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(os.fspath(path))
        self._readable = select.poll()  # select() fails for a descriptor above 1,023
        self._readable.register(self.sock, select.POLLIN)
        self._step = step
        self._timeout = timeout

    def close(self) -> None:
        """Close the socket as QEMU does: without a message."""
        self.sock.close()

    def _read(self, size: int) -> bytes:
        """Wait for exactly ``size`` bytes and return them. Raises EOFError and TimeoutError."""
        data = b""
        deadline = time.monotonic() + self._timeout
        while len(data) < size:
            self._wait(deadline)
            part = self.sock.recv(size - len(data))
            if not part:
                raise EOFError("the server has closed the connection")
            data += part
        return data

    def _wait(self, deadline: float) -> None:
        """Wait until the socket is readable. Raises TimeoutError after ``deadline``."""
        timeout_ms = 0 if self._step else self._timeout * 1000
        while not self._readable.poll(timeout_ms):
            if self._step:
                self._step()
            if time.monotonic() > deadline:
                raise TimeoutError("no reply")

"""The listening Unix socket of a function."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from struct import Struct
from typing import Final

from emu.host.listening import OWNER_ONLY, Acceptor, listen
from emu.server.vfio.base import TransportError

_SEND_TIMEOUT: Final = Struct("@ll").pack(2, 0)
"""Time that libvfio-user waits for a client to read, which blocks the loop (struct timeval)."""


class VfioListener:
    """A socket bound to ``path`` from :meth:`open` until :meth:`close`, which removes the path."""

    def __init__(self, path: str | os.PathLike[str], mode: int = OWNER_ONLY) -> None:
        """Store path and mode: processes with write permission may connect."""
        self.path = Path(path)
        self._mode = mode
        self._sock: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._inode = 0

    def open(self) -> None:
        """Bind and listen; replace a dead server's socket.

        Raises TransportError with the reason: the path is in use, is no socket, is too long, or
        cannot be created.
        """
        try:
            sock = listen(self.path, 1, self._mode)
        except OSError as error:
            raise TransportError(f"{self.path}: {error.strerror}") from error
        self._inode = self.path.lstat().st_ino
        self._sock = sock
        self._acceptor = Acceptor(sock, str(self.path))

    def fileno(self) -> int:
        """Return the descriptor, readable when a client waits; -1 when closed."""
        return self._sock.fileno() if self._sock else -1

    def accept(self) -> socket.socket | None:
        """Return the waiting client's blocking socket.

        None when no client waits, when it has already left, when the process lacks descriptors (the
        connection is closed then), and when closed. Sending to the client times out after 2 s.
        """
        client = self._acceptor.accept() if self._acceptor else None
        if client is not None:
            client.setblocking(True)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_TIMEOUT)
        return client

    def close(self) -> None:
        """Stop listening and remove the path; do nothing when closed.

        The path stays if another process has replaced it.
        """
        if self._sock is None or self._acceptor is None:
            return
        self._acceptor.close()
        self._sock.close()
        self._sock = self._acceptor = None
        with contextlib.suppress(FileNotFoundError):
            if self.path.lstat().st_ino == self._inode:
                self.path.unlink()

"""The listening Unix socket of a function."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
from pathlib import Path
from struct import Struct
from typing import Final

from emu.transport.base import TransportError

logger = logging.getLogger(__name__)

_MAX_PATH: Final = 107
"""sizeof(struct sockaddr_un.sun_path) without the NUL."""

_SEND_TIMEOUT: Final = Struct("@ll").pack(2, 0)
"""A client that does not read its replies must not hold us up for good."""


class Listener:
    """A socket bound to ``path`` from :meth:`open` until :meth:`close`, which removes the path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._sock: socket.socket | None = None
        self._inode = 0

    def open(self) -> None:
        """Bind and listen. The path of a dead server is taken over, anything else is an error."""
        if len(os.fsencode(self.path)) > _MAX_PATH:
            raise TransportError(f"{self.path}: a socket's path has {_MAX_PATH} bytes at most")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._remove_dead_socket()
            sock.bind(os.fspath(self.path))
            self._inode = self.path.stat().st_ino
            sock.listen(1)
        except OSError as error:
            sock.close()
            raise TransportError(f"{self.path}: {error.strerror}") from error
        except TransportError:
            sock.close()
            raise
        sock.setblocking(False)
        self._sock = sock

    def fileno(self) -> int:
        """Readable when a client waits; -1 when closed."""
        return self._sock.fileno() if self._sock else -1

    def accept(self) -> socket.socket | None:
        """The waiting client's blocking socket, or None when it has gone again."""
        if self._sock is None:
            return None
        try:
            client, _ = self._sock.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError as error:
            logger.error("%s: cannot accept a client: %s", self.path, error.strerror)
            return None
        client.setblocking(True)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_TIMEOUT)
        return client

    def close(self) -> None:
        """Stop listening; harmless when closed."""
        if self._sock is None:
            return
        self._sock.close()
        self._sock = None
        with contextlib.suppress(FileNotFoundError):
            if self.path.stat().st_ino == self._inode:
                self.path.unlink()

    def _remove_dead_socket(self) -> None:
        """Unlink the path when it is a socket that nobody listens on any more."""
        try:
            if not stat.S_ISSOCK(self.path.lstat().st_mode):
                raise TransportError(f"{self.path}: exists and is no socket")
        except FileNotFoundError:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            result = probe.connect_ex(os.fspath(self.path))
        if result != errno.ECONNREFUSED:
            raise TransportError(f"{self.path}: another process listens here")
        self.path.unlink()

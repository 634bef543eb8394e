"""The address of a fabric, to which its processes connect: ``unix:PATH`` or ``tcp:HOST:PORT``.

The first process listens and the others connect. The listener holds a lock file beside a Unix
socket's path. The lock prevents that two processes replace a dead socket at the same time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from emu.host.listening import MAX_PATH, OWNER_ONLY, Acceptor, bind
from emu.host.user_error import UserError

_BACKLOG = 64


class FabricError(UserError):
    """A fabric that cannot be joined; the message is a single line."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket in the file system of a host."""

    path: Path
    mode: int = OWNER_ONLY
    """Mode of the path; processes with write permission may connect."""

    def __str__(self) -> str:
        return f"unix:{self.path}"

    def connect(self) -> socket.socket:
        """Start to connect without blocking; return the socket.

        Raises OSError when no process listens.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        return _started(sock, os.fspath(self.path))

    def listen(self) -> FabricListener | None:
        """Bind the path and return the listener, which holds the lock file beside the path.

        Return None when another process holds the lock or listens. A dead socket is replaced.
        Raises OSError for an unusable path, FileExistsError for a file that is no socket.
        """
        lock = _lock(self.path.with_name(self.path.name + ".lock"))
        if lock is None:
            return None
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if self._is_alive():
                sock.close()
                lock.release()
                return None
            self.path.unlink(missing_ok=True)
            bind(sock, self.path, self.mode)
            sock.listen(_BACKLOG)
        except OSError:
            sock.close()
            lock.release()
            raise
        sock.setblocking(False)
        return FabricListener(sock, self.path, lock)

    def _is_alive(self) -> bool:
        """Return whether another program without the lock listens, even with a full backlog.

        False for an absent path or a dead socket. Raises FileExistsError for a file that is no
        socket, and OSError.
        """
        try:
            if not stat.S_ISSOCK(self.path.lstat().st_mode):
                raise FileExistsError(errno.EEXIST, "exists and is not a socket")
            self.connect().close()
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except BlockingIOError:  # the listener's backlog is full
            return True
        return True


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port of a host, at which processes of several hosts can connect."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"tcp:{self.host}:{self.port}"

    def connect(self) -> socket.socket:
        """Start to connect without blocking; return the socket.

        Raises OSError for an immediate failure. Keepalive detects a vanished peer within 30
        seconds.
        """
        family, where = _resolved(self.host, self.port)
        sock = socket.socket(family, socket.SOCK_STREAM)
        _tune(sock)
        return _started(sock, where)

    def listen(self) -> FabricListener | None:
        """Return the listener; None if another process has the port, or if the host is remote.

        Raises OSError for another failure, such as an unknown host name.
        """
        family, where = _resolved(self.host, self.port)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Permit connections in TIME_WAIT of a listener that has just ended.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                return None
            raise
        sock.setblocking(False)
        return FabricListener(sock)


@cache
def _resolved(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
    """Return family and socket address of a host and port; the first result is kept for ever.

    Raises socket.gaierror for an unknown name. A later look-up would block the guests, most likely
    during network problems.
    """
    family, _, _, _, where = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICSERV
    )[0]
    return family, where


_KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 4}
"""Detect a host that vanished without closing within 30 seconds (tcp(7))."""
_USER_TIMEOUT_MS = 30_000
"""The same limit while data wait for a TCP ACK, when no keepalive is sent."""


def _tune(sock: socket.socket) -> None:
    """Set TCP_NODELAY, and keepalive with a timeout of 30 seconds for a vanished peer."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)


Address = UnixAddress | TcpAddress


def parse(name: str, mode: int = OWNER_ONLY) -> Address:
    """Return the address for ``unix:PATH`` or ``tcp:HOST:PORT``; a created socket gets ``mode``.

    Raises FabricError for another form, a port outside 1 to 65535, or a path above MAX_PATH bytes.
    A relative path becomes absolute; host names are not resolved here.
    """
    kind, _, rest = name.partition(":")
    if kind == "unix" and rest:
        path = Path(rest).absolute()
        if len(os.fsencode(path)) > MAX_PATH:
            raise FabricError(f"{path}: a socket's path has at most {MAX_PATH} bytes")
        return UnixAddress(path, mode)
    host, _, port = rest.rpartition(":")
    if kind == "tcp" and host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16:
        return TcpAddress(host.strip("[]"), int(port))
    raise FabricError(f"no fabric {name!r}: use unix:PATH or tcp:HOST:PORT")


def unix_path(name: str) -> Path | None:
    """Return the absolute path of a fabric's socket; None for a TCP address. Raises FabricError."""
    address = parse(name)
    return address.path if isinstance(address, UnixAddress) else None


class FabricListener:
    """A listening socket; ``close`` removes the files that it created."""

    def __init__(
        self, sock: socket.socket, path: Path | None = None, lock: _Lock | None = None
    ) -> None:
        self.sock = sock
        self._acceptor = Acceptor(sock, "fabric")
        self._path = path
        self._lock = lock

    def accept(self) -> socket.socket | None:
        """Return the next client's socket, which is non-blocking; None if no client waits.

        None also follows a lack of descriptors, which closes the client's connection.
        """
        client = self._acceptor.accept()
        if client is None:
            return None
        client.setblocking(False)
        if client.family != socket.AF_UNIX:
            _tune(client)
        return client

    def close(self) -> None:
        """Stop listening, unlink the path, and release the lock.

        The lock is last, so that a successor finds no files of ours.
        """
        self._acceptor.close()
        self.sock.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.release()


@dataclass(frozen=True, slots=True)
class _Lock:
    """A lock file that this process holds."""

    fd: int
    path: Path

    def release(self) -> None:
        """Release the lock and remove its file."""
        self.path.unlink(missing_ok=True)
        os.close(self.fd)


def _lock(path: Path) -> _Lock | None:
    """Take the lock and return it; None when another process holds it or has just removed the file.

    Raises OSError for a symbolic link, whose target another user may have chosen.
    """
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(fd).st_ino:
            return _Lock(fd, path)
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(fd)
    return None


def _started(sock: socket.socket, where: str | tuple[Any, ...]) -> socket.socket:
    """Start to connect a socket without blocking; on failure, close it and raise OSError."""
    sock.setblocking(False)
    result = sock.connect_ex(where)
    if result not in (0, errno.EINPROGRESS):
        sock.close()
        raise OSError(result, os.strerror(result))
    return sock

"""Sockets that this process listens on, in directories that others may write to.

A Unix socket has its mode from the moment it exists. An existing path is replaced only when it is a
dead socket; symbolic links are not followed. A process that has run out of descriptors closes new
connections; otherwise the listening socket would stay readable and the loop would spin.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
from pathlib import Path
from typing import Final

from emu.host.userfiles import missing_text

logger = logging.getLogger(__name__)

OWNER_ONLY: Final = 0o600
MAX_PATH: Final = 107
"""sizeof(struct sockaddr_un.sun_path) without the NUL."""


def bind(sock: socket.socket, path: Path, mode: int = OWNER_ONLY) -> None:
    """Bind a Unix socket to its path with ``mode``; processes with write permission may connect.

    Raises OSError; EADDRINUSE for an existing path, which is not replaced. Linux gives the path the
    mode of the unbound socket, less the umask (net/unix/af_unix.c: unix_bind_bsd), so there is no
    race. The bits that the umask cleared are added afterwards.
    """
    os.fchmod(sock.fileno(), mode)
    sock.bind(os.fspath(path))
    if stat.S_IMODE(path.lstat().st_mode) != mode:
        os.chmod(path, mode)


def listen(path: Path, backlog: int, mode: int = OWNER_ONLY) -> socket.socket:
    """Open a non-blocking Unix socket that listens at ``path``, and return it.

    A dead server's socket at the path is replaced. Raises OSError with a text for the user: too
    long a path, a file that is no socket, or a path where another process listens.
    """
    if len(os.fsencode(path)) > MAX_PATH:
        raise OSError(errno.ENAMETOOLONG, f"the path of a socket has at most {MAX_PATH} bytes")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_dead_socket(path)
        bind(sock, path, mode)
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def why_not_listening(path: Path, *, is_shared: bool = False) -> str:
    """Return why no socket can be made at ``path``, as text for the user; "" when one can.

    With ``is_shared``, a path where another process listens is no obstacle. The path stays
    unchanged.
    """
    if len(os.fsencode(path)) > MAX_PATH:
        return f"the path of a socket has at most {MAX_PATH} bytes"
    if not path.parent.is_dir():
        return missing_text("directory", path.parent)
    try:
        exists = _is_dead_socket(path)
    except OSError as error:
        is_joined = is_shared and error.errno == errno.EADDRINUSE
        return "" if is_joined else f"{path}: {error.strerror}"
    if not exists and not os.access(path.parent, os.W_OK | os.X_OK):
        return f"{path.parent} is not writable"
    return ""


def _remove_dead_socket(path: Path) -> None:
    """Unlink the path when it is a socket on which no process listens any more."""
    if _is_dead_socket(path):
        path.unlink()


def _is_dead_socket(path: Path) -> bool:
    """Return whether a path is a socket without a listener; False when the path does not exist.

    Raises OSError, with a text for the user, for another kind of file or a socket in use.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, "exists and is not a socket")
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        result = probe.connect_ex(os.fspath(path))
    if result != errno.ECONNREFUSED:
        raise OSError(errno.EADDRINUSE, "another process listens at this path")
    return True


class Acceptor:
    """Accepts clients from a non-blocking listening socket, which the caller continues to own."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        self._sock = sock
        self._name = name
        self._is_short = False
        self._reserve = -1
        self._renew()

    def accept(self) -> socket.socket | None:
        """Return the next client's socket.

        None when no client waits or its connection had to be closed. When the process lacks
        descriptors, the waiting connection is accepted by the reserve descriptor and closed. Any
        other error is logged, the first in a row only. Raises nothing.
        """
        try:
            client, _ = self._sock.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError as error:
            self._turn_away(error)
            return None
        self._is_short = False
        return client

    def close(self) -> None:
        """Close the reserve descriptor; may be called more than once."""
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _turn_away(self, error: OSError) -> None:
        """Accept and close the waiting connection by the reserve descriptor.

        Log only the first in a row.
        """
        if not self._is_short:
            logger.error("%s: cannot accept clients: %s", self._name, error.strerror)
        self._is_short = True
        self.close()
        with contextlib.suppress(OSError):
            client, _ = self._sock.accept()
            client.close()
        self._renew()

    def _renew(self) -> None:
        with contextlib.suppress(OSError):
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

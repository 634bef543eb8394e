"""The messages of a front end on its socket, and the replies."""

from __future__ import annotations

import contextlib
import os
import socket
from array import array
from typing import Final, NamedTuple

from emu.server.vfio.waits.waiting import Waiter
from emu.server.vhost.protocol import (
    HEADER,
    MAX_PAYLOAD,
    MAX_REGIONS,
    U64,
    VERSION,
    VhostMessageFlag,
    VhostProtocolError,
    request_name,
)

_SCM_MAX_FD: Final = 253
"""Maximum number of descriptors in a message on Linux (include/net/scm.h)."""
_ANCILLARY: Final = socket.CMSG_SPACE(_SCM_MAX_FD * array("i").itemsize)
_BLOCKING: Final = int(socket.MSG_CMSG_CLOEXEC)
_NONBLOCKING: Final = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
_DONT_WAIT: Final = int(socket.MSG_DONTWAIT)
_TRUNCATED: Final = int(socket.MSG_CTRUNC)
_RECEIVED: Final = HEADER.size + MAX_PAYLOAD
_NEED_REPLY: Final = int(VhostMessageFlag.NEED_REPLY)
_REPLY: Final = VERSION | int(VhostMessageFlag.REPLY)
_SUCCESS: Final = U64.pack(0)


class VhostMessage(NamedTuple):
    """A request of the front end."""

    request: int
    needs_reply: bool
    payload: bytes


class VhostStream:
    """A front end's socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._waiter = Waiter(sock)
        self._buffer = b""
        self._fds: list[int] = []
        self._lost = ""
        """Reason to drop the front end."""

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._sock.fileno()

    def wake(self) -> None:
        """End the wait in :meth:`receive`, or the next one."""
        self._waiter.wake()

    def hang_up(self, why: str = "") -> None:
        """Shut down the connection.

        The next :meth:`receive` or :meth:`reply` raises ``why`` as its error. The first reason
        counts. Without a reason, receive() raises EOFError.
        """
        self._lost = self._lost or why
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection and every descriptor that no message used."""
        self._close(self._fds)
        self._fds = []
        self._sock.close()

    def receive(self, timeout_ns: int | None) -> bool:
        """Wait up to ``timeout_ns`` and receive once into the buffer.

        Return False if nothing arrived. May return False early. Raises EOFError when the front end
        has closed, OSError or :class:`VhostProtocolError` for a close inside a message, a hang-up,
        or lost descriptors.
        """
        flags = _BLOCKING if self._waiter.prepare(timeout_ns) else _NONBLOCKING
        try:
            data, ancillary, state, _ = self._sock.recvmsg(_RECEIVED, _ANCILLARY, flags)
        except BlockingIOError:
            return False
        if ancillary or state & _TRUNCATED:
            self._keep(ancillary, bool(state & _TRUNCATED))
        if not data:
            if self._lost:
                raise VhostProtocolError(self._lost)
            if self._buffer:
                raise VhostProtocolError("the front end left within a message")
            raise EOFError
        self._buffer = self._buffer + data if self._buffer else data
        return True

    def next(self) -> VhostMessage | None:
        """Return the next complete message and remove it from the buffer.

        None while it is incomplete. Raises :class:`VhostProtocolError` for a header with another
        version, flags or too long a payload.
        """
        buffer = self._buffer
        if len(buffer) < HEADER.size:
            return None
        request, flags, size = HEADER.unpack_from(buffer)
        if flags & ~_NEED_REPLY != VERSION or size > MAX_PAYLOAD:
            name = request_name(request)
            raise VhostProtocolError(f"{name} with flags {flags:#x} and {size} bytes")
        end = HEADER.size + size
        if len(buffer) < end:
            return None
        self._buffer = buffer[end:]
        return VhostMessage(request, bool(flags & _NEED_REPLY), buffer[HEADER.size : end])

    def take_descriptors(self, number: int) -> list[int]:
        """Return the descriptors of the last message from :meth:`next`; the caller closes them.

        Raises :class:`VhostProtocolError` for another number of them. A receive call ends with the
        data that descriptors arrived with (unix(7)), so they belong to the last complete message. A
        message with others behind it has none.
        """
        own = [] if self._buffer else self._fds
        if len(own) != number:
            raise VhostProtocolError(f"{len(own)} descriptors, not {number}")
        if own:
            self._fds = []
        return own

    def reply(self, request: int, payload: bytes = _SUCCESS) -> None:
        """Send a reply without waiting; by default a success, u64 0.

        Raises :class:`VhostProtocolError` when the socket does not accept all of it, or after a
        hang-up.
        """
        if self._lost:
            raise VhostProtocolError(self._lost)
        data = HEADER.pack(request, _REPLY, len(payload)) + payload
        try:
            sent = self._sock.send(data, _DONT_WAIT)
        except BlockingIOError:
            sent = 0
        if sent != len(data):
            raise VhostProtocolError("the front end does not read its replies")

    def _keep(self, ancillary: list[tuple[int, int, bytes]], truncated: bool) -> None:
        """Store the received descriptors for :meth:`take_descriptors`.

        Raises :class:`VhostProtocolError` if some were lost, or more than 8 wait.
        """
        fds = array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        self._fds.extend(fds)
        if truncated or len(self._fds) > MAX_REGIONS:
            raise VhostProtocolError("a message has too many descriptors, or some were lost")

    @staticmethod
    def _close(fds: list[int]) -> None:
        for fd in fds:
            os.close(fd)

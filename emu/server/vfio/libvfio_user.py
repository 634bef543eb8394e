"""The second transport: the same function served through libvfio-user.

The module exists for comparison: a client that works with only one of the servers helps to locate a
bug. Each message must be complete when its first bytes are read. The
library blocks on a client that does not read its replies; the transport soon drops that client,
because all others wait meanwhile.

The library would also block until a new client has sent its first message, VERSION. The transport
therefore listens itself, receives that message, sends it to the library on a private connection,
and then replaces that connection by the client's socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
from struct import Struct
from typing import Final

from emu.device.ports import PciFunction
from emu.device.rounds.sizes import REQUEST_BYTES_PER_POLL
from emu.host.listening import OWNER_ONLY
from emu.server.vfio.base import TransportError
from emu.server.vfio.libvfio_abi import load_library
from emu.server.vfio.libvfio_context import Context, LibraryVectors
from emu.server.vfio.protocol import (
    HEADER,
    MAX_MSG_SIZE,
    MAX_VERSION_DATA,
    NUM_BARS,
    REGION_REQUEST,
    VERSION,
    VfioCommand,
    VfioProtocolError,
    command_name,
)
from emu.server.vfio.server import SLOW_BYTES, VfioServer
from emu.server.vfio.waits.waiting import Waiter

_SEND_LIMIT: Final = Struct("@ll").pack(0, 40_000)
"""Time that the library may wait for a client to read, as SO_SNDTIMEO: seconds, microseconds."""
_ACCESSES: Final = (VfioCommand.REGION_READ, VfioCommand.REGION_WRITE)
_MAX_GREETING: Final = HEADER.size + VERSION.size + MAX_VERSION_DATA


class LibvfioUserServer(VfioServer["_LibraryClient"]):
    """A function on a vfio-user socket; see :class:`emu.server.vfio.base.Transport`.

    Messages are the only event to poll for: the library itself waits for a client that does not
    read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        trust_unsealed: bool = False,
        socket_mode: int = OWNER_ONLY,
    ) -> None:
        """Load the library. Raises :class:`TransportError` without libvfio-user."""
        self._library = load_library()
        self._vectors = LibraryVectors()
        super().__init__(
            path, self._vectors, trust_unsealed=trust_unsealed, socket_mode=socket_mode
        )
        self._context: Context | None = None

    def _open(self, function: PciFunction) -> None:
        """Create the library's context and listen; destroy the context if listening fails.

        Raises :class:`TransportError` for either.
        """
        self._context = Context(self._library, self._name, function, self.memory, self._vectors)
        try:
            self._listener.open()
        except TransportError:
            self._context.destroy()
            raise

    def _meet(self, sock: socket.socket) -> _LibraryClient:
        assert self._context is not None
        return _LibraryClient(sock, self._context)

    def _handle(self, client: _LibraryClient, timeout_ns: int | None) -> None:
        """Let the library handle the received messages of one poll.

        Send latched vectors after DEVICE_SET_IRQS. Before the agreement on VERSION, receive more of
        VERSION, and attach the library once complete. Raises EOFError, OSError and
        VfioProtocolError, which end the client.
        """
        if client.attached:
            for command in client.peek(timeout_ns):
                client.context.run()
                if command == VfioCommand.DEVICE_SET_IRQS:
                    self._vectors.send_pending()
        elif client.greet(timeout_ns):
            client.attach()

    def close(self) -> None:
        """Drop the client, stop listening and free the library's context.

        Do nothing when closed.
        """
        super().close()
        if self._context is not None:
            self._context.destroy()
            self._context = None


class _LibraryClient:
    """The client's socket, which the library reads after an agreement on VERSION."""

    def __init__(self, sock: socket.socket, context: Context) -> None:
        self.context = context
        self._sock = sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_LIMIT)
        self._waiter = Waiter(sock)
        self.attached = False
        self._greeting = b""
        self._peeked = bytearray(MAX_MSG_SIZE)

    def fileno(self) -> int:
        """Return the descriptor of the client's socket."""
        return self._sock.fileno()

    def wake(self) -> None:
        """End the wait in :meth:`greet` or :meth:`peek`, or the next one."""
        self._waiter.wake()

    def hang_up(self) -> None:
        """Make the next receive call, ours or the library's, find the connection closed."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Make the library drop the client and unmap its ranges; close the socket in any case."""
        try:
            self.context.hang_up()
        finally:
            self._sock.close()

    def greet(self, timeout_ns: int | None) -> bool:
        """Receive more of VERSION, waiting up to ``timeout_ns``; return whether it is complete.

        Raises EOFError when the client has left, and :class:`VfioProtocolError` when the first
        message is not VERSION or has an invalid size.
        """
        missing = self._missing()
        flags = 0 if self._waiter.prepare(timeout_ns) else socket.MSG_DONTWAIT
        try:
            data = self._sock.recv(missing, flags)
        except BlockingIOError:
            return False
        if not data:
            raise EOFError
        self._greeting += data
        return self._missing() == 0

    def attach(self) -> None:
        """Send the library's reply to VERSION, and make the library serve this socket.

        Raises :class:`VfioProtocolError`, after the reply was sent, when the library refuses the
        version.
        """
        reply, fds, agreed = self.context.attach(self._greeting)
        try:
            socket.send_fds(self._sock, [reply], fds)
        finally:
            for fd in fds:
                os.close(fd)
        self.attached = agreed
        if not agreed:
            raise VfioProtocolError("no common version of the protocol")
        self.context.adopt(self._sock)

    def peek(self, timeout_ns: int | None) -> list[int]:
        """Wait up to ``timeout_ns`` for messages; return the commands that one poll may handle.

        The messages stay in the socket, where the library reads them. The list is empty when
        nothing arrived. Raises EOFError when the client has left. Raises :class:`VfioProtocolError`
        for an invalid size, or when not even the first message is complete.
        """
        flags = socket.MSG_PEEK
        if not self._waiter.prepare(timeout_ns):
            flags |= socket.MSG_DONTWAIT
        try:
            filled = self._sock.recv_into(self._peeked, 0, flags)
        except BlockingIOError:
            return []
        if not filled:
            raise EOFError
        commands: list[int] = []
        head, left = 0, REQUEST_BYTES_PER_POLL
        while filled - head >= HEADER.size and left > 0:
            _, command, size, _, _ = HEADER.unpack_from(self._peeked, head)
            if not HEADER.size <= size <= MAX_MSG_SIZE:
                raise VfioProtocolError(f"a header that is no request's: size {size}")
            if head + size > filled:
                break
            commands.append(command)
            left -= self._cost(head, command, size)
            head += size
        if not commands:
            raise VfioProtocolError(f"{filled} bytes of a message, which libvfio-user needs whole")
        return commands

    def _missing(self) -> int:
        """Return the missing bytes of VERSION; 0 when it is complete.

        While the header is incomplete, return the header's missing bytes only. Raises
        :class:`VfioProtocolError` for another command or an invalid size.
        """
        if len(self._greeting) < HEADER.size:
            return HEADER.size - len(self._greeting)
        _, command, size, _, _ = HEADER.unpack_from(self._greeting)
        if command != VfioCommand.VERSION or not HEADER.size <= size <= _MAX_GREETING:
            raise VfioProtocolError(f"{command_name(command)} of {size} bytes before VERSION")
        return int(size - len(self._greeting))

    def _cost(self, head: int, command: int, size: int) -> int:
        """Return the cost of a peeked message in bytes of a poll, as in our own server.

        The cost is the size; a BAR read adds its count, and anything but a BAR access adds
        SLOW_BYTES.
        """
        if command in _ACCESSES and size >= REGION_REQUEST.size:
            _, _, _, _, _, _, region, count = REGION_REQUEST.unpack_from(self._peeked, head)
            if region < NUM_BARS:
                return size + (int(count) if command == VfioCommand.REGION_READ else 0)
        return size + SLOW_BYTES

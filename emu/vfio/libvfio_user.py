"""The second transport: the same function served through libvfio-user.

It exists for comparison: when a client works with one server and not with the other, that helps to
locate the bug. It has no WRITE_MULTI, and a message must have arrived completely when its first
bytes are read. The library waits while a client does not read its replies: such a client is dropped
soon, as everybody else waits as well.

The library would block until a new client has sent its first message, VERSION. So we listen
instead, receive that message, pass it to the library on a private connection, and then replace that
connection by the client's socket.
"""

from __future__ import annotations

import logging
import os
import select
import socket
from struct import Struct
from typing import Final

from emu.host.listening import OWNER_ONLY
from emu.ports import PciFunction
from emu.vfio.base import TransportError, clean_up
from emu.vfio.libvfio_abi import load_library
from emu.vfio.libvfio_context import Context, LibraryVectors
from emu.vfio.listener import Listener
from emu.vfio.memory import DmaMap
from emu.vfio.protocol import (
    HEADER,
    MAX_MSG_SIZE,
    MAX_VERSION_DATA,
    VERSION,
    Command,
    ProtocolError,
    command_name,
)
from emu.vfio.waiting import Waiter

logger = logging.getLogger(__name__)

_TURN: Final = 400
"""Messages that are handled before other transports get their turn."""
_SEND_LIMIT: Final = Struct("@ll").pack(0, 50_000)
"""How long the library may wait for a client to read, as SO_SNDTIMEO: seconds, microseconds."""
_MAX_GREETING: Final = HEADER.size + VERSION.size + MAX_VERSION_DATA


class LibvfioUserServer:
    """A function on a vfio-user socket; see :class:`emu.vfio.base.Transport`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        trust_unsealed: bool = False,
        socket_mode: int = OWNER_ONLY,
    ) -> None:
        """Raises :class:`TransportError` when there is no libvfio-user."""
        self._library = load_library()
        self.memory = DmaMap(trust_unsealed=trust_unsealed)
        self.interrupts = LibraryVectors()
        self._name = os.fspath(path)
        self._listener = Listener(path, socket_mode)
        self._function: PciFunction | None = None
        self._context: Context | None = None
        self._client: _Client | None = None

    @property
    def function(self) -> PciFunction:
        """The function that is served."""
        if self._function is None:
            raise TransportError(f"{self._name}: listen() comes first")
        return self._function

    @property
    def connected(self) -> bool:
        """Whether there is a client."""
        return self._client is not None

    @property
    def may_wait(self) -> bool:
        """Whether :meth:`serve` itself can wait for the client."""
        return self._client is not None

    @property
    def events(self) -> int:
        """The events to poll for. The library itself waits for a client that does not read."""
        return select.POLLIN

    def listen(self, function: PciFunction) -> None:
        """Offer ``function`` from now on."""
        self.interrupts.resize(function.msix_vectors)
        self._function = function
        self.memory.forget_views = function.forget_views
        self.memory.on_lost = self._memory_lost
        self._context = Context(self._library, self._name, function, self.memory, self.interrupts)
        try:
            self._listener.open()
        except TransportError:
            self._context.destroy()
            raise
        logger.info("%s: listening with libvfio-user", self._name)

    def fileno(self) -> int:
        """The client's descriptor, or the listening one."""
        return self._client.sock.fileno() if self._client else self._listener.fileno()

    def accept(self) -> None:
        """Take the waiting client."""
        if self._client is None and (sock := self._listener.accept()) is not None:
            self._client = _Client(sock)
            logger.info("%s: a client has connected", self._name)

    def serve(self, timeout_ns: int | None = 0) -> None:
        """Wait for messages and let the library handle those that have arrived."""
        client, context = self._client, self._context
        if client is None or context is None:
            return
        try:
            if client.attached:
                for command in client.peek(timeout_ns):
                    context.run()
                    if command == Command.DEVICE_SET_IRQS:
                        self.interrupts.send_pending()
            elif client.greet(timeout_ns):
                client.attach(context)
        except EOFError:
            logger.info("%s: the client has left", self._name)
            self._drop()
        except (ProtocolError, OSError) as error:
            logger.warning("%s: the client is dropped: %s", self._name, error)
            self._drop()
        except Exception:
            logger.exception("%s: internal error: the client is dropped", self._name)
            self._drop()

    def wake(self) -> None:
        """End the wait in :meth:`serve`, or the next one."""
        if self._client is not None:
            self._client.waiter.wake()

    def close(self) -> None:
        """Drop the client, stop listening and free the library's context."""
        self._listener.close()
        if self._client is not None:
            self._drop()
        if self._context is not None:
            self._context.destroy()
            self._context = None

    def _memory_lost(self) -> None:
        """Called in the middle of an access: the client is dropped when it is served next."""
        logger.error("%s: a file of guest memory has lost pages that were granted", self._name)
        if self._client is not None:
            self._client.sock.shutdown(socket.SHUT_RDWR)

    def _drop(self) -> None:
        """Forget the client before the function is reset, which then can access nothing of it.

        ``_client`` is cleared first: a signal handler may wake the client that it finds there, and
        that must not be closed.
        """
        client, self._client = self._client, None
        if client is None or self._context is None:
            return
        clean_up(
            self._name,
            self.memory.clear,
            self._context.hang_up,  # the library unmaps the client's ranges
            client.sock.close,
            self.interrupts.clear_pending,
            self.function.reset,
            self.memory.collect,
        )


class _Client:
    """The client's socket, which the library reads once VERSION has been agreed on."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_LIMIT)
        self.waiter = Waiter(sock)
        self.attached = False
        self._greeting = b""
        self._peeked = bytearray(MAX_MSG_SIZE)

    def greet(self, timeout_ns: int | None) -> bool:
        """Wait for more of VERSION; True when it is complete. Raises as :meth:`peek` does."""
        missing = self._missing()
        flags = 0 if self.waiter.prepare(timeout_ns) else socket.MSG_DONTWAIT
        try:
            data = self.sock.recv(missing, flags)
        except BlockingIOError:
            return False
        if not data:
            raise EOFError
        self._greeting += data
        return self._missing() == 0

    def attach(self, context: Context) -> None:
        """Let the library reply to VERSION and take over the socket."""
        reply, fds, agreed = context.attach(self._greeting)
        try:
            socket.send_fds(self.sock, [reply], fds)
        finally:
            for fd in fds:
                os.close(fd)
        self.attached = agreed
        if not agreed:
            raise ProtocolError("no version could be agreed on")
        context.adopt(self.sock)

    def peek(self, timeout_ns: int | None) -> list[int]:
        """Wait for messages; returns the commands of one turn of them, empty when none came.

        Raises EOFError when the client has left and :class:`ProtocolError` when the next message
        can never be handled.
        """
        flags = socket.MSG_PEEK
        if not self.waiter.prepare(timeout_ns):
            flags |= socket.MSG_DONTWAIT
        try:
            filled = self.sock.recv_into(self._peeked, 0, flags)
        except BlockingIOError:
            return []
        if not filled:
            raise EOFError
        commands: list[int] = []
        head = 0
        while filled - head >= HEADER.size:
            _, command, size, _, _ = HEADER.unpack_from(self._peeked, head)
            if not HEADER.size <= size <= MAX_MSG_SIZE:
                raise ProtocolError(f"a header of no request: size {size}")
            if head + size > filled or len(commands) == _TURN:
                break
            commands.append(command)
            head += size
        if not commands:
            raise ProtocolError(f"{filled} bytes of a message, and libvfio-user cannot wait")
        return commands

    def _missing(self) -> int:
        """Bytes of VERSION still to come: first its header, which gives the length of the rest."""
        if len(self._greeting) < HEADER.size:
            return HEADER.size - len(self._greeting)
        _, command, size, _, _ = HEADER.unpack_from(self._greeting)
        if command != Command.VERSION or not HEADER.size <= size <= _MAX_GREETING:
            raise ProtocolError(f"{command_name(command)} of {size} bytes came first")
        return int(size - len(self._greeting))

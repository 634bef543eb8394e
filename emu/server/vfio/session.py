"""A vfio-user client: its stream of messages, and the hot path of BAR accesses.

A guest's MMIO read waits for the whole round trip, so this path is written for speed. A receive
call reads all available data, and a BAR access needs one struct and one call.

No call here waits for a client. While a client does not read its replies, its further requests are
not handled. A large number of requests is handled in several polls, between those of other clients.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from array import array
from collections.abc import Callable, Sequence
from typing import Final

from emu.device.ports import PciFunction
from emu.device.rounds.sizes import REQUEST_BYTES_PER_POLL
from emu.server.vfio.negotiate import negotiate
from emu.server.vfio.own_requests import OwnRequests, Request
from emu.server.vfio.protocol import (
    HEADER,
    MAX_DATA_XFER_SIZE,
    MAX_MSG_SIZE,
    NUM_BARS,
    REGION_REQUEST,
    MessageFlag,
    VfioCommand,
    VfioProtocolError,
    VfioRequestError,
    command_name,
)
from emu.server.vfio.requests import Requests
from emu.server.vfio.server import SLOW_BYTES
from emu.server.vfio.waits.waiting import Waiter

logger = logging.getLogger(__name__)

_SCM_MAX_FD: Final = 253
"""Maximum number of descriptors in a message on Linux (include/net/scm.h)."""
_ANCILLARY: Final = socket.CMSG_SPACE(_SCM_MAX_FD * array("i").itemsize)
_BLOCKING: Final = int(socket.MSG_CMSG_CLOEXEC)
_TRUNCATED: Final = int(socket.MSG_CTRUNC)
_NONBLOCKING: Final = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
_DONT_WAIT: Final = int(socket.MSG_DONTWAIT)

_unpack, _pack = REGION_REQUEST.unpack_from, REGION_REQUEST.pack
_HEADER: Final = HEADER.size
_ACCESS: Final = REGION_REQUEST.size
_READ: Final = int(VfioCommand.REGION_READ)
_WRITE: Final = int(VfioCommand.REGION_WRITE)
_MAX_DATA: Final = MAX_DATA_XFER_SIZE
_REPLY: Final = int(MessageFlag.REPLY)
_TYPE: Final = int(MessageFlag.TYPE_MASK)
_NO_REPLY: Final = int(MessageFlag.NO_REPLY)
_WRITES: Final = (0, _NO_REPLY)


class VfioSession:
    """A client from its first message to the end of its connection."""

    def __init__(
        self, sock: socket.socket, name: str, function: PciFunction, requests: Requests
    ) -> None:
        self._sock = sock
        self._name = name
        self._function = function
        self._requests = requests
        self._hot_sizes: tuple[int, ...] = ()
        self._negotiated = False
        self.behind = False
        """Whether received requests are unhandled: call :meth:`go_on` before receive()."""
        self.unsent = bytearray()
        """The reply that waits until the client reads, empty without one."""
        self._waiter = Waiter(sock)
        # Messages start at 0: after all complete ones, an incomplete rest is moved there.
        # A header at the end is unpacked with what a BAR access has behind it.
        self._buffer = bytearray(MAX_MSG_SIZE + _ACCESS - _HEADER)
        self._space = memoryview(self._buffer)[:MAX_MSG_SIZE]
        self._all_space = [self._space]
        self._filled = 0
        self._head = 0
        self._fds: dict[int, list[int]] = {}
        self._own = OwnRequests()

    def fileno(self) -> int:
        """Return the descriptor of the client's socket."""
        return self._sock.fileno()

    @property
    def _must_wait(self) -> bool:
        """Whether further requests wait, for the client to read or for the next round."""
        return bool(self.unsent) or self._function.is_round_used

    def wake(self) -> None:
        """End the wait in :meth:`receive`, or the next one."""
        self._waiter.wake()

    def hang_up(self) -> None:
        """Make the next :meth:`receive` find the connection closed."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection and every received descriptor that no request kept. Call once."""
        for fds in self._fds.values():
            _close_all(fds)
        self._fds.clear()
        self._sock.close()

    def receive(self, timeout_ns: int | None) -> bool:
        """Receive the available data, after a wait of up to ``timeout_ns``.

        Return False if none arrived. May return False early. Handles no message: call
        :meth:`dispatch` after True. Raises EOFError when the client has closed between messages,
        OSError or :class:`VfioProtocolError` for another loss.
        """
        filled = self._filled
        space = [self._space[filled:]] if filled else self._all_space
        flags = _BLOCKING if self._waiter.prepare(timeout_ns) else _NONBLOCKING
        try:
            size, ancillary, state, _ = self._sock.recvmsg_into(space, _ANCILLARY, flags)
        except BlockingIOError:
            return False
        self._filled = filled + size
        if ancillary or state & _TRUNCATED:
            self._take_descriptors(ancillary, bool(state & _TRUNCATED))
        if not size:
            if filled:
                raise VfioProtocolError(f"the client left after {filled} bytes of a message")
            raise EOFError
        return True

    def go_on(self) -> None:
        """Send waiting replies.

        Once all are sent, handle more received requests as :meth:`dispatch`. Raises OSError or
        :class:`VfioProtocolError` when the client must be dropped.
        """
        if self.unsent:
            unsent, self.unsent = self.unsent, bytearray()
            self._send(unsent)
        if not self.unsent:
            self.dispatch()

    def dispatch(self) -> None:
        """Handle the complete messages of one poll, until a reply cannot be sent at once.

        Ends also behind a request other than a BAR access if the round's budget is used. Sets
        ``behind``: whether a reply is unsent or received messages may be pending. A refused request
        gets an error reply. Raises OSError, or :class:`VfioProtocolError` for an invalid header or
        a failed VERSION; then the client must be dropped.
        """
        buffer, filled, sizes = self._buffer, self._filled, self._hot_sizes
        function, head = self._function, self._head
        last = filled - _HEADER
        if last > head + REQUEST_BYTES_PER_POLL:
            last = head + REQUEST_BYTES_PER_POLL
        while head <= last:
            msg_id, cmd, size, flags, _, offset, bar, count = _unpack(buffer, head)
            end = head + size
            if not (end <= filled and bar < len(sizes) and 0 < count <= sizes[bar] - offset):
                if not self._slow(head, end):
                    filled = 0
                    break
                sizes = self._hot_sizes
                last = -1 if self._must_wait else last - SLOW_BYTES
            elif cmd == _WRITE and size == _ACCESS + count and flags in _WRITES:
                function.bar_write(bar, offset, buffer[head + _ACCESS : end])
                if not flags:
                    reply = _pack(msg_id, cmd, _ACCESS, _REPLY, 0, offset, bar, count)
                    last = last if self._send(reply) else -1
            elif cmd == _READ and size == _ACCESS and flags == 0 and count <= _MAX_DATA:
                data = function.bar_read(bar, offset, count)
                if len(data) == count:
                    size += count
                    reply = _pack(msg_id, cmd, size, _REPLY, 0, offset, bar, count)
                    last = last - count if self._send(reply + data) else -1
                else:
                    why = f"the function read {len(data)} bytes of {count}"
                    self._refuse(msg_id, cmd, flags, VfioRequestError(errno.EIO, why))
            else:
                self._slow(head, end)
                last = -1 if self._must_wait else last - SLOW_BYTES
            head = end
        self.behind = bool(self.unsent) or filled - head >= _HEADER
        if self.behind:
            self._head = head
        elif head:
            self._discard(head)

    def _slow(self, head: int, end: int) -> bool:
        """Handle the message at ``head``, with all checks.

        Return False, unhandled, when it is incomplete. Closes the message's descriptors that no
        request kept. Raises :class:`VfioProtocolError` for an invalid size or flags, and after the
        error reply to a refused VERSION. Raises it also for a reply to no request of ours.
        """
        msg_id, cmd, size, flags, _ = HEADER.unpack_from(self._buffer, head)
        is_reply = flags & _TYPE == _REPLY
        if (flags & ~_NO_REPLY and not is_reply) or not HEADER.size <= size <= MAX_MSG_SIZE:
            raise VfioProtocolError(f"a header that is no request's: size {size}, flags {flags:#x}")
        if end > self._filled:
            return False
        fds = self._fds.pop(head, [])
        if is_reply:
            _close_all(fds)
            self._own.replied(msg_id, cmd, flags)
            return True
        payload = bytes(self._space[head + HEADER.size : end])
        try:
            reply = self._answer(cmd, payload, fds)
        except VfioRequestError as error:
            self._refuse(msg_id, cmd, flags, error)
            if not self._negotiated:
                raise VfioProtocolError("no common version of the protocol") from None
        else:
            if not flags & _NO_REPLY:
                header = HEADER.pack(msg_id, cmd, _HEADER + len(reply), _REPLY, 0)
                self._send(header + reply)
        finally:
            _close_all(fds)
        return True

    def send_requests(self, requests: Sequence[Request], on_end: Callable[[int], None]) -> None:
        """Send a batch of requests, as :meth:`OwnRequests.batch`, while one of the client's runs.

        Raises OSError when the connection is lost.
        """
        self._send(self._own.batch(requests, on_end))

    def _answer(self, cmd: int, payload: bytes, fds: list[int]) -> bytes:
        """Return the reply's payload; the first message, and only the first, must be VERSION.

        Raises :class:`VfioProtocolError` for another first message, :class:`VfioRequestError` for a
        refused request. A second VERSION is refused with ENOTSUP.
        """
        if self._negotiated:
            return self._requests.handle(cmd, payload, fds)
        if cmd != VfioCommand.VERSION or fds:
            raise VfioProtocolError(f"{command_name(cmd)} first, not VERSION without descriptors")
        reply = negotiate(payload)
        self._negotiated = True
        self._hot_sizes = self._requests.region_sizes[:NUM_BARS]
        return reply

    def _refuse(self, msg_id: int, cmd: int, flags: int, error: VfioRequestError) -> None:
        """Log a refused request.

        Send the error reply, a header only, unless ``flags`` has NO_REPLY.
        """
        logger.warning("%s: %s refused: %s", self._name, command_name(cmd), error)
        if not flags & MessageFlag.NO_REPLY:
            reply = MessageFlag.REPLY | MessageFlag.ERROR
            self._send(HEADER.pack(msg_id, cmd, HEADER.size, reply, error.errno))

    def _send(self, data: bytes | bytearray) -> bool:
        """Send a reply without waiting; return True if all of it was sent.

        Return False when the client does not read: the rest waits for :meth:`go_on`, and so does
        each later reply. Raises OSError when the connection is lost.
        """
        sent = 0
        if not self.unsent:
            try:
                sent = self._sock.send(data, _DONT_WAIT)
            except BlockingIOError:
                pass
            else:
                if sent == len(data):
                    return True
        self.unsent += data[sent:]
        return False

    def _discard(self, head: int) -> None:
        """Drop the messages before ``head`` from the buffer; move the rest to its start.

        Closes the descriptors of the dropped messages.
        """
        self._head = 0
        rest = self._filled - head
        if rest:
            self._buffer[:rest] = self._buffer[head : self._filled]
        self._filled = rest
        if self._fds:
            _close_all([fd for start, fds in self._fds.items() if start < head for fd in fds])
            self._fds = {start - head: fds for start, fds in self._fds.items() if start >= head}

    def _take_descriptors(self, ancillary: list[tuple[int, int, bytes]], truncated: bool) -> None:
        """Store the received descriptors with their message, the last one in the buffer.

        A receive call ends with the data that descriptors arrived with (unix(7)). A sender attaches
        them to the first byte of a message, so the message is the last one here. Raises
        :class:`VfioProtocolError` when descriptors were lost (``truncated``) or a message has over
        253.
        """
        fds = array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        head = 0
        while self._filled - head >= HEADER.size:
            size = HEADER.unpack_from(self._buffer, head)[2]
            if size < HEADER.size or head + size >= self._filled:
                break
            head += size
        descriptors = self._fds.setdefault(head, [])
        descriptors.extend(fds)
        if truncated or len(descriptors) > _SCM_MAX_FD:
            raise VfioProtocolError("a message has too many descriptors, or some were lost")


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)

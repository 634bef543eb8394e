"""An uplink over a stream socket: each frame behind its length, 4 bytes, big-endian.

So speak QEMU's ``-netdev stream`` (net/stream_data.c) and passt (tap.c). The socket never blocks.
What the other side does not read waits in a queue of limited size and is dropped beyond it, as by
hardware; meanwhile its frames are read.
"""

from __future__ import annotations

import itertools
import logging
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import ClassVar

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import ETHERNET_BYTES, FrameError
from emu.device.port.eth.plain import plain
from emu.device.ports import Buffer
from emu.device.rounds.backlog import Backlog
from emu.device.rounds.costs import STEPS_PER_UPLINK_FRAME
from emu.server.net.eth.port import Segment, SegmentPort, padded
from emu.server.net.poller import READ, WRITE, Poller

MAX_BODY = 4096 + 65536
"""Bytes of the longest frame that QEMU takes (net/net.c: NET_BUFSIZE); more breaks the protocol."""
MAX_QUEUED = 1 << 20
"""Bytes that may wait for the other side."""
SEND_BUFFER = 1 << 20
PAUSE_NS = 500_000
"""How long to wait for a driver that has no receive requests; it does not say when it has."""
_READ_BYTES = 1 << 18
_FRAMES_PER_WRITE = 256

log = logging.getLogger(__name__)

LENGTH = Struct(">I")
"""What is in front of each frame: how many bytes it has."""
_length_at = LENGTH.unpack_from
_length = LENGTH.pack


def _logged(call: Callable[[], object]) -> None:
    """Make a call; an exception that nobody expected costs no more than its frame."""
    try:
        call()
    except Exception:
        log.exception("internal error: a frame of an uplink is lost")


class FramedUplink(SegmentPort):
    """A port that leads to a connected stream socket; a :class:`emu.server.net.poller.Pollable`."""

    is_uplink = True
    frames_per_write: ClassVar[int] = _FRAMES_PER_WRITE
    """How many frames may be in one write."""
    buffer_bytes: ClassVar[int] = _READ_BYTES + MAX_BODY + LENGTH.size
    """How much may have been read and wait for receive requests."""

    def __init__(self, name: str, sock: socket.socket, segment: Segment, poller: Poller) -> None:
        super().__init__(name)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._sock: socket.socket | None = sock
        self._segment = segment
        self._poller = poller
        self._queue: deque[Buffer] = deque()
        """The lengths and frames to be written; the first perhaps only in part."""
        self._queued = 0
        self._is_blocked = False
        self._line = Backlog(poller.budget, _logged)
        """Frames that came when the round had done enough."""
        self._buffer = bytearray(self.buffer_bytes)
        self._filled = self._done = 0
        """How much of the buffer is filled, and how much of that has been handed on."""
        self.has_more = False
        self._has_ended = False
        """The other side has closed; what it has sent before is still handed on."""
        poller.watch(self, READ)

    @property
    def is_up(self) -> bool:
        """Whether it is connected."""
        return self._sock is not None

    def fileno(self) -> int:
        """The socket's descriptor; -1 when closed."""
        return self._sock.fileno() if self._sock is not None else -1

    # -- out

    def frames(self, frame: Frame) -> list[bytes]:
        """What the peer can take of a frame. Raises :class:`FrameError`."""
        return plain(frame)

    def deliver(self, frame: Frame) -> None:
        """Send a frame; it may be lost, which is counted."""
        if not self._line.do(len(frame.data), self._send, frame):
            self.dropped["queue full"] += 1

    def _send(self, frame: Frame) -> None:
        if self._sock is None:
            return
        try:
            frames = self.frames(frame)
        except FrameError:
            self.dropped["malformed"] += 1
            return
        self._poller.budget.charge(len(frames) * STEPS_PER_UPLINK_FRAME)
        for data in frames:
            if self._queued + len(data) > MAX_QUEUED:
                self.dropped["queue full"] += 1
            else:
                self.sent += 1
                self._queue.append(_length(len(data)) + data)
                self._queued += len(data) + LENGTH.size
        if not self._is_blocked:
            self._write()

    def room(self) -> None:
        """The socket has room again."""
        self._write()

    def _write(self) -> None:
        limit = self.frames_per_write
        while self._queue and self._sock is not None:
            try:
                written = self._sock.sendmsg(itertools.islice(self._queue, limit))
            except BlockingIOError:
                break
            except OSError as error:
                self.close(error.strerror or str(error))
                return
            self._queued -= written
            while written:
                data = self._queue.popleft()
                if written < len(data):
                    self._queue.appendleft(memoryview(data)[written:])
                written -= min(written, len(data))
        self._set_blocked(bool(self._queue))

    def _set_blocked(self, is_blocked: bool) -> None:
        if is_blocked is not self._is_blocked and self._sock is not None:
            self._is_blocked = is_blocked
            self._poller.watch(self, WRITE if is_blocked else READ)

    # -- in

    def frame_at(
        self, buffer: memoryview, start: int, end: int, limit: int
    ) -> tuple[Frame, int, int]:
        """The frame from ``start`` to ``end``, and where it ends; it stands for how many frames.

        Those that follow it may be in it as well, ``limit`` frames in all.
        """
        return Frame(padded(bytes(buffer[start:end]))), end, 1

    def take(self, limit: int) -> int:
        """Hand received frames to the segment, ``limit`` of them; returns how many there were."""
        self._receive()
        if self._sock is None:
            return 0
        room = self._segment.spare()
        if not room and self._filled > self._done:
            self._poller.pause(self, PAUSE_NS)
            return 0
        count = self._hand_on(min(limit, room))
        if self._has_ended and not self.has_more:
            self.close("")
        return count

    def _hand_on(self, limit: int) -> int:
        """Parse what is in the buffer, up to so many frames."""
        buffer, at, filled = self._buffer, self._done, self._filled
        view, handed_on = memoryview(buffer)[:filled], 0
        self.has_more = False
        while filled - at >= LENGTH.size:
            length = _length_at(buffer, at)[0]
            end = at + LENGTH.size + length
            if length > MAX_BODY:
                self.close(f"a frame of {length} bytes")
                return handed_on + 1
            if end > filled:
                break
            if handed_on >= limit:
                self.has_more = True
                break
            if length < ETHERNET_BYTES:
                handed_on += 1
                self.dropped["bad length"] += 1
            else:
                frame, end, count = self.frame_at(view, at + LENGTH.size, end, limit - handed_on)
                handed_on += count
                self._segment.forward(self, frame)
                if self._sock is None:
                    return handed_on
            at = end
        self._done = at
        return handed_on

    def _receive(self) -> None:
        """Read what has arrived, as far as there is room for it."""
        if self._sock is None or self._has_ended:
            return
        view = memoryview(self._buffer)
        if self._filled + _READ_BYTES > len(view):
            left = self._filled - self._done
            view[:left] = view[self._done : self._filled]
            self._filled, self._done = left, 0
            if left + _READ_BYTES > len(view):
                return
        try:
            count = self._sock.recv_into(view[self._filled :], _READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(error.strerror or str(error))
            return
        self._has_ended = not count
        self._filled += count

    # -- the end

    def close(self, why: str) -> None:
        """Close the socket; ``why`` is empty when the other side just left, or we do."""
        sock, self._sock = self._sock, None
        if sock is None:
            return
        self._queue.clear()
        self._line.clear()
        self._queued = self._filled = self._done = 0
        self._buffer = bytearray()
        self.has_more = False
        sock.close()
        self.closed(why)

    def closed(self, why: str) -> None:
        """The socket has been closed."""

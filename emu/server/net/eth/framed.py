"""An uplink over a stream socket: each frame behind its length, 4 bytes, big-endian.

QEMU's ``-netdev stream`` (net/stream_data.c) and passt (tap.c) use this format. The socket never
blocks. Frames that the peer does not read wait in a bounded queue; more are dropped, as by
hardware. Reading the peer's frames continues meanwhile.
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
"""Longest frame that QEMU takes, in bytes (net/net.c: NET_BUFSIZE); more breaks the protocol."""
MAX_QUEUED = 1 << 20
"""Maximum bytes queued for the peer."""
SEND_BUFFER = 1 << 20
PAUSE_NS = 500_000
"""Pause while a driver has no receive requests; the driver does not report new ones."""
_READ_BYTES = 1 << 18
_FRAMES_PER_WRITE = 256

log = logging.getLogger(__name__)

LENGTH = Struct(">I")
"""The length in front of each frame, in bytes."""
_length_at = LENGTH.unpack_from
_length = LENGTH.pack


def _logged(call: Callable[[], object]) -> None:
    """Make a call; log an exception and go on, so that only the call's frame is lost."""
    try:
        call()
    except Exception:
        log.exception("internal error: a frame of an uplink is lost")


class FramedUplink(SegmentPort):
    """A port that leads to a connected stream socket; a :class:`emu.server.net.poller.Pollable`."""

    is_uplink = True
    frames_per_write: ClassVar[int] = _FRAMES_PER_WRITE
    """Maximum number of frames in a write."""
    buffer_bytes: ClassVar[int] = _READ_BYTES + MAX_BODY + LENGTH.size
    """Bytes that may have been read and wait for receive requests."""

    def __init__(self, name: str, sock: socket.socket, segment: Segment, poller: Poller) -> None:
        super().__init__(name)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._sock: socket.socket | None = sock
        self._segment = segment
        self._poller = poller
        self._queue: deque[Buffer] = deque()
        """Lengths and frames to be written; the first may be partly written."""
        self._queued = 0
        self._is_blocked = False
        self._backlog = Backlog(poller.budget, _logged)
        """Frames that arrived after the round's budget was used up."""
        self._buffer = bytearray(self.buffer_bytes)
        self._filled = self._done = 0
        """Bytes of the buffer that are filled, and bytes already forwarded."""
        self.has_more = False
        self._has_ended = False
        """Whether the peer has closed; its earlier frames are still forwarded."""
        poller.watch(self, READ)

    @property
    def is_up(self) -> bool:
        """Whether the socket is open."""
        return self._sock is not None

    def fileno(self) -> int:
        """Return the socket's descriptor; -1 when closed."""
        return self._sock.fileno() if self._sock is not None else -1

    # -- out

    def frames(self, frame: Frame) -> list[bytes]:
        """Return the frames in a form that the peer takes; here, without super-frames.

        Raises FrameError for a super-frame that cannot be cut. Subclasses override this.
        """
        return plain(frame)

    def deliver(self, frame: Frame) -> None:
        """Send a frame now, or in a later round beyond the round's budget.

        Frames that a full socket does not take wait in a queue of MAX_QUEUED bytes (1 MiB). Count
        "queue full" only beyond that queue or the backlog, and "malformed" for a bad super-frame.
        A closed socket loses frames uncounted.
        """
        if not self._backlog.do(len(frame.data), self._send, frame):
            self.dropped["queue full"] += 1

    def _send(self, frame: Frame) -> None:
        """Queue the frames for the peer, and write unless the socket is full.

        Count each queued frame as sent. Count "malformed" for a super-frame that cannot be cut, and
        "queue full" for a frame above MAX_QUEUED. A closed socket loses the frame uncounted.
        """
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

    def on_writable(self) -> None:
        """Write queued frames, because the socket accepts bytes again."""
        self._write()

    def _write(self) -> None:
        """Write queued frames until none is left or the socket is full; close on an OSError."""
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
        """Choose the epoll events for a full or writable socket, if the state has changed."""
        if is_blocked is not self._is_blocked and self._sock is not None:
            self._is_blocked = is_blocked
            self._poller.watch(self, WRITE if is_blocked else READ)

    # -- in

    def frame_at(
        self, buffer: memoryview, start: int, end: int, limit: int
    ) -> tuple[Frame, int, int]:
        """Return the padded frame ``buffer[start:end]``, its end offset, and its number of frames.

        The number is 1 here. A subclass may join the frames that follow, up to ``limit`` frames in
        all.
        """
        return Frame(padded(bytes(buffer[start:end]))), end, 1

    def take(self, limit: int) -> int:
        """Forward up to ``limit`` received frames to the segment; return their number.

        Without receive requests on the segment, pause for PAUSE_NS and return 0; frames wait in the
        buffer. ``has_more`` reports whole frames that are left. After the peer's end of file, close
        behind the last frame.
        """
        self._receive()
        if self._sock is None:
            return 0
        credits = self._segment.credits()
        if not credits and self._filled > self._done:
            self._poller.pause(self, PAUSE_NS)
            return 0
        count = self._forward_received(min(limit, credits))
        if self._has_ended and not self.has_more:
            self.close("")
        return count

    def _forward_received(self, limit: int) -> int:
        """Parse the buffer and forward up to ``limit`` frames; return their number.

        A length above MAX_BODY closes the socket. A frame below 14 bytes counts as "bad length".
        """
        buffer, at, filled = self._buffer, self._done, self._filled
        view, forwarded = memoryview(buffer)[:filled], 0
        self.has_more = False
        while filled - at >= LENGTH.size:
            length = _length_at(buffer, at)[0]
            end = at + LENGTH.size + length
            if length > MAX_BODY:
                self.close(f"a frame of {length} bytes")
                return forwarded + 1
            if end > filled:
                break
            if forwarded >= limit:
                self.has_more = True
                break
            if length < ETHERNET_BYTES:
                forwarded += 1
                self.dropped["bad length"] += 1
            else:
                frame, end, count = self.frame_at(view, at + LENGTH.size, end, limit - forwarded)
                forwarded += count
                self._segment.forward(self, frame)
                if self._sock is None:
                    return forwarded
            at = end
        self._done = at
        return forwarded

    def _receive(self) -> None:
        """Read once into the buffer, if there is space for another read.

        End of file is only recorded; an OSError closes the socket.
        """
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
        """Close the socket once, drop the frames of both directions, and call :meth:`closed`.

        ``why`` is empty when either side closes in good order.
        """
        sock, self._sock = self._sock, None
        if sock is None:
            return
        self._queue.clear()
        self._backlog.clear()
        self._queued = self._filled = self._done = 0
        self._buffer = bytearray()
        self.has_more = False
        sock.close()
        self.closed(why)

    def closed(self, why: str) -> None:
        """Do nothing here; subclasses handle that the socket has been closed for this reason."""

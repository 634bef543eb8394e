"""A socket between two processes of a fabric, which sends and receives frames without blocking.

Frames to send wait in a queue until the functions' polls are done; a write sends many of them.

Above PAUSE_BYTES senders pause. Without a write for LIFETIME_NS, the other process does not read.
The packets are then dropped, as by a link's head-of-queue lifetime (IBTA 18.2.5.4), and senders do
not wait for that process.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from emu.device.ports import Buffer, Clock, Timer
from emu.device.state.containment import ContainedClock, contain
from emu.server.net.fabric import protocol
from emu.server.net.fabric.errors import FabricProtocolError
from emu.server.net.fabric.protocol import (
    HEADER,
    LOSABLE,
    MAX_BODY,
    PACKETS,
    FrameKind,
    Placed,
    next_frame,
)
from emu.server.net.fabric.shared import Sharing
from emu.server.net.poller import READ, WRITE

log = logging.getLogger(__name__)

PAUSE_BYTES = 1 << 20
"""Queued bytes above which senders pause."""
MAX_BYTES = 4 * PAUSE_BYTES
"""Queued bytes above which packets are dropped."""
HARD_BYTES = 2 * max(MAX_BODY.values())
"""Queued bytes of non-packet frames above which the connection is closed."""
LIFETIME_NS = 2_000_000_000
_FLUSH_BYTES = 1 << 18
_BUFFERS_PER_CALL = 256
_READ_BYTES = 1 << 18
_MEMORY = FrameKind.MEMORY
_header = HEADER.pack


class ConnectionOwner(Protocol):
    """The owner of a connection, which handles received frames."""

    def received(self, connection: FabricConnection, kind: FrameKind, body: memoryview) -> int:
        """Handle a complete frame; return its cost, where a packet for one receiver costs 1.

        ``body`` is valid only during the call. A raised FabricProtocolError closes the connection
        with the error's text as reason.
        """

    def closed(self, connection: FabricConnection, why: str) -> None:
        """Handle the end of the connection, which is already closed.

        ``why`` is empty after the peer's orderly close.
        """

    def watch(self, connection: FabricConnection, events: int) -> None:
        """Serve the connection for these epoll events from now on, READ or WRITE of the poller."""


class FabricConnection:
    """A connected, or connecting, non-blocking socket."""

    def __init__(
        self, sock: socket.socket, owner: ConnectionOwner, clock: Clock, name: str
    ) -> None:
        self.name = name
        if sock.family == socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PAUSE_BYTES)
        self._sock: socket.socket | None = sock
        self._owner = owner
        self._clock = ContainedClock(clock, self)
        self._flush = partial(contain, self, self._write)
        self._queue: deque[tuple[FrameKind, Buffer]] = deque()
        """Kind and unwritten bytes of each frame."""
        self._packet_bytes = self._other_bytes = 0
        self._has_begun = False
        """Whether the first frame of the queue is partly written."""
        self.has_sent = False
        """Whether queued bytes were written, so that the socket was connected."""
        self._is_due = False
        """Whether the queue is flushed in this round."""
        self._lifetime: Timer | None = None
        self._is_blocked = False
        self._is_stuck = False
        """Whether the peer has not read for a lifetime; packets are dropped until it reads."""
        self._waiting: list[Callable[[], None]] = []
        self._buffer = memoryview(bytearray(_READ_BYTES + max(MAX_BODY.values()) + HEADER.size))
        self._filled = 0
        self._done = 0
        """Offset in the buffer up to which the owner has handled frames."""
        self.has_more = False
        self._sharing = Sharing(sock)

    def fileno(self) -> int:
        """Return the socket's descriptor; -1 when closed."""
        return self._sock.fileno() if self._sock is not None else -1

    @property
    def has_failed(self) -> bool:
        """Whether the connection has ended."""
        return self._sock is None

    def fail(self) -> None:
        """Log the exception in handling, and close the connection with reason "internal error"."""
        log.exception("%s: internal error", self.name)
        self.close("internal error")

    # -- out

    @property
    def is_congested(self) -> bool:
        """Whether packets should be dropped because the peer reads too slowly, or not at all."""
        return self._is_stuck or self._packet_bytes >= PAUSE_BYTES

    @property
    def is_pausing(self) -> bool:
        """Whether senders of packets should wait for :meth:`when_ready`; False when closed."""
        return self._packet_bytes >= PAUSE_BYTES and not self._is_stuck and self._sock is not None

    @property
    def is_behind(self) -> bool:
        """Whether non-packet frames wait for the peer to read."""
        return self._other_bytes > 0

    def send(self, kind: FrameKind, body: Buffer) -> bool:
        """Queue a frame, and return False when packets should pause until :meth:`when_ready`.

        Return True after the close and drop the frame. A packet is dropped silently while the peer
        is stuck (True), and at MAX_BYTES queued (False). Other frames are never dropped; above
        HARD_BYTES of them, the connection is closed.
        """
        if self._sock is None:
            return True
        data = _header(len(body), kind) + body
        if kind in PACKETS:
            if self._is_stuck:
                return True
            if self._packet_bytes >= MAX_BYTES:
                return False
            self._packet_bytes += len(data)
        else:
            self._other_bytes += len(data)
        self._queue.append((kind, data))
        if not self._is_blocked:
            if self._packet_bytes >= _FLUSH_BYTES:
                self._write()
            elif not self._is_due:
                self._is_due = True
                self._clock.budget.after_polls(self._flush)
        if self._other_bytes > HARD_BYTES:
            self.close("the peer does not read")
        return self._packet_bytes < PAUSE_BYTES

    def send_train(self, kind: FrameKind, buffers: Sequence[Buffer]) -> bool:
        """Send a train, whose buffers are valid only during the call; return as :meth:`send`.

        The train is copied once: to memory that the other process maps, or into the socket.
        Unwritten bytes are queued even above MAX_BYTES when no other frame waits.
        """
        if self._queue and not self._is_blocked:
            self._write()
        if (placed := self._place_in_shared_memory(kind, buffers)) is not None:
            kind, buffers = FrameKind.PLACED, (protocol.placed(placed),)
        if self._queue or self._sock is None or len(buffers) >= _BUFFERS_PER_CALL:
            return self.send(kind, b"".join(buffers))
        size = sum(map(len, buffers))
        header = HEADER.pack(size, kind)
        written = self._write_some((header, *buffers))
        left = HEADER.size + size - written
        if left and self._sock is not None:
            self._queue.append((kind, b"".join((header, *buffers))[written:]))
            self._packet_bytes += left
            self._has_begun = written > 0
            self._set_blocked(True)
        return self._packet_bytes < PAUSE_BYTES

    def _place_in_shared_memory(self, kind: FrameKind, buffers: Sequence[Buffer]) -> Placed | None:
        """Copy a frame's body to shared memory, and return its position there.

        Return None if the body must go through the socket: closed or congested connection, no
        shared memory, or no free space. The first call creates the memory while no frame is queued.
        """
        sharing = self._sharing
        if self._sock is None or self.is_congested:
            return None
        if not sharing.has_begun and (self._queue or not sharing.begin(self._sock)):
            return None
        return sharing.place(kind, buffers)

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once: when queued packets fall below PAUSE_BYTES, or at the close.

        A closed connection calls at once. An open one calls after a later write or drop, even if it
        does not pause now.
        """
        if self._sock is None:
            callback()
        else:
            self._waiting.append(callback)

    def _write(self) -> None:
        """Write the queue until it is empty or the socket is full; wait for EPOLLOUT if full."""
        queue, self._is_due = self._queue, False
        while queue and self._sock is not None:
            if len(queue) == 1:
                written = self._write_some((queue[0][1],))
            else:
                some = itertools.islice(queue, _BUFFERS_PER_CALL)
                written = self._write_some([data for _, data in some])
            if self._sock is None:
                return
            if not written:
                self._set_blocked(True)
                return
            self._written(written)
        if self._is_blocked:
            self._set_blocked(False)

    def _write_some(self, some: Sequence[Buffer]) -> int:
        """Write once to the socket; return the number of bytes, 0 if it is full or was closed.

        A broken pipe counts all bytes as written, because the peer's last frames are still to be
        read. Any other OSError closes the connection.
        """
        assert self._sock is not None
        try:
            return self._sock.sendmsg(some)
        except BlockingIOError:
            return 0
        except BrokenPipeError:  # peer closed; its frames are read first
            return sum(map(len, some))
        except OSError as error:
            self.close(error.strerror or str(error))
            return 0

    def _written(self, count: int) -> None:
        """Remove ``count`` written bytes from the queue, and wake senders below PAUSE_BYTES.

        A write of queued bytes ends the stuck state and cancels the lifetime timer.
        """
        if self._lifetime is not None:
            self._stop_lifetime()
        self._is_stuck = False
        self.has_sent = True
        if count == self._packet_bytes + self._other_bytes:  # most writes
            self._queue.clear()
            self._packet_bytes = self._other_bytes = count = 0
            self._has_begun = False
        while count:
            kind, data = self._queue.popleft()
            done = min(count, len(data))
            count -= done
            if kind in PACKETS:
                self._packet_bytes -= done
            else:
                self._other_bytes -= done
            self._has_begun = done < len(data)
            if self._has_begun:
                self._queue.appendleft((kind, memoryview(data)[done:]))
        if self._waiting and self._packet_bytes < PAUSE_BYTES:
            self._wake()

    def _set_blocked(self, is_blocked: bool) -> None:
        """Choose the epoll events for a full or writable socket, and report a change to the owner.

        A full socket starts the lifetime timer unless the timer runs.
        """
        if is_blocked and self._lifetime is None:
            self._lifetime = self._clock.call_later(LIFETIME_NS, self._drop)
        if is_blocked is not self._is_blocked:
            self._is_blocked = is_blocked
            self._owner.watch(self, WRITE if is_blocked else READ)

    def _drop(self) -> None:
        """Drop the queued packets after LIFETIME_NS without a write, and wake the waiting senders.

        The connection becomes stuck and drops further packets. Non-packet frames, PLACED and a
        partly written frame stay queued.
        """
        self._lifetime = None
        self._is_stuck = True
        first = [self._queue.popleft()] if self._has_begun else []
        remaining = [entry for entry in self._queue if entry[0] not in LOSABLE]
        lost = len(self._queue) - len(remaining)
        log.info("%s reads too slowly or not at all: %d packets dropped", self.name, lost)
        self._queue = deque(first + remaining)
        self._packet_bytes = sum(len(data) for kind, data in self._queue if kind in PACKETS)
        self._wake()

    def _stop_lifetime(self) -> None:
        if self._lifetime is not None:
            self._lifetime.cancel()
            self._lifetime = None

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    # -- in

    def on_writable(self) -> None:
        """Write queued frames, because the socket accepts bytes again; the stuck state ends.

        The queue may be empty: the packets of a stuck peer were dropped.
        """
        self._is_stuck = False
        self._write()

    def take(self, limit: int) -> int:
        """Handle received frames up to a cost of about ``limit`` packets; return the cost.

        Return 0 when no data were read. ``has_more`` reports whether to call again without waiting
        for the socket. A FabricProtocolError closes the connection and costs 1.
        """
        if not self.has_more and not self._receive():
            return 0
        try:
            return self._act(limit)
        except FabricProtocolError as error:
            self.close(str(error))
            return 1

    def _receive(self) -> bool:
        """Read once into the buffer; return False when no bytes arrived.

        End of file closes with an empty reason, and an OSError closes with its text; both return
        False.
        """
        if self._sock is None:
            return False
        room = self._buffer[self._filled : self._filled + _READ_BYTES]
        try:
            count = self._sharing.receive(self._sock, room)
        except BlockingIOError:
            return False
        except OSError as error:
            self.close(error.strerror or str(error))
            return False
        if not count:
            self.close("")
        self._filled += count
        return count > 0

    def _act(self, limit: int) -> int:
        """Pass complete frames to the owner, and keep an incomplete rest; return the cost.

        Stop early when the owner closes the connection, or at ``limit`` with ``has_more`` set.
        Raises FabricProtocolError.
        """
        buffer, done, filled, work = self._buffer, self._done, self._filled, 0
        self.has_more = False
        while done < filled and (found := next_frame(buffer, done, filled)) is not None:
            kind, body, done = found
            if kind < _MEMORY:
                work += self._owner.received(self, kind, body)
            else:
                work += self._shared(kind, body)
            if self._sock is None:
                return work
            if work >= limit:
                self._done, self.has_more = done, True
                return work
        left = filled - done
        if left:
            buffer[:left] = buffer[done:filled]
        self._filled, self._done = left, 0
        return work or 1

    def _shared(self, kind: FrameKind, body: memoryview) -> int:
        """Handle MEMORY, PLACED or FREED; return the cost, 1 unless PLACED carries packets.

        PLACED passes the frame in shared memory to the owner, and sends FREED when a report is due.
        Raises FabricProtocolError.
        """
        if kind is not FrameKind.PLACED:
            self._sharing.take(kind, body)
            return 1
        placed = protocol.read_placed(body)
        work = self._owner.received(self, placed.kind, self._sharing.body(placed))
        if (up_to := self._sharing.free_report()) is not None:
            self.send(FrameKind.FREED, protocol.freed(up_to))
        return work

    # -- the end

    def close(self, why: str) -> None:
        """Close, and report ``why`` to the owner, an empty text after the peer's orderly close.

        Do nothing if already closed. Queued packets are lost, as by :meth:`abandon`.
        """
        if self._sock is None:
            return
        self.abandon()
        self._owner.closed(self, why)

    def abandon(self) -> None:
        """Close without a report to the owner, and call all ``when_ready`` callbacks.

        Queued packets are lost. Non-packet frames are written once without waiting, unless a frame
        is partly written.
        """
        sock, self._sock = self._sock, None
        if sock is None:
            return
        self._stop_lifetime()
        last = [data for kind, data in self._queue if kind not in PACKETS]
        if last and not self._has_begun:
            with contextlib.suppress(OSError):
                sock.sendmsg(last[:_BUFFERS_PER_CALL])
        self._queue.clear()
        self._buffer = memoryview(b"")
        self.has_more = False
        sock.close()
        self._sharing.close()
        self._wake()

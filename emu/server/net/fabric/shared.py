"""Memory that two processes of a host share for the bodies of large frames.

For a frame of 128 KiB through a socket, the kernel copies twice and allocates pages. The sender
therefore creates a file in memory (memfd_create(2)) for its first train, and sends the descriptor
over the Unix socket (MEMORY). Later the sender copies a train to the next free position there, and
sends the position (PLACED), in order with all other frames. The receiver handles the train in
place, and reports from time to time the position up to which memory is free (FREED). Without free
space the train is sent through the socket, which makes senders pause.

Super-frames of Ethernet, at most 64 KiB, use the socket: a measurement showed no gain here.

Positions count from the first byte on, over all laps; a train's bytes are contiguous.

The other process may be hostile. A seal prevents that its file shrinks, and the file has pages of
the usual size, so a read raises no SIGBUS. The process can change a train during a read; headers
are read once, and all decisions use that copy (:class:`emu.device.port.train.Train`).
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import socket
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from emu.device.ports import Buffer
from emu.server.net.fabric import protocol
from emu.server.net.fabric.errors import FabricProtocolError
from emu.server.net.fabric.protocol import MAX_BODY, FrameKind, Placed

log = logging.getLogger(__name__)

SIZE: Final = 1 << 21
"""Bytes of memory for a direction: more than the trains in flight on a queue pair."""
_REPORT_AFTER: Final = SIZE // 4
_PLACEABLE: Final = frozenset({FrameKind.TRAIN, FrameKind.FRAME_TRAIN})
_ANCILLARY: Final = socket.CMSG_SPACE(array("i").itemsize)
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class OutMemory:
    """Memory that this process writes and the other one reads."""

    __slots__ = ("_freed", "_view", "_written")

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._written = self._freed = 0

    def place(self, kind: FrameKind, buffers: Sequence[Buffer]) -> Placed | None:
        """Copy a frame's body to the next position of contiguous bytes, and return that position.

        Return None and write no byte while the other process has not freed enough memory.
        """
        size = sum(map(len, buffers))
        start = self._written
        at = start % SIZE
        if at + size > SIZE:
            start, at = start + SIZE - at, 0
        if start + size - self._freed > SIZE:
            return None
        view = self._view
        for buffer in buffers:
            end = at + len(buffer)
            view[at:end] = buffer
            at = end
        self._written = start + size
        return Placed(kind, size, start)

    def freed(self, up_to: int) -> None:
        """Free the memory before ``up_to`` for reuse.

        Raises FabricProtocolError for a position before the last report or beyond the written
        bytes.
        """
        if not self._freed <= up_to <= self._written:
            raise FabricProtocolError(f"memory is free up to {up_to} of {self._written}")
        self._freed = up_to


class InMemory:
    """Memory that the other process writes and this one reads."""

    __slots__ = ("_announced", "_done", "_view")

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._done = self._announced = 0

    def body(self, placed: Placed) -> memoryview:
        """Return the body of a placed frame as a view, which the other process may still change.

        Raises FabricProtocolError unless the frame is a train within its kind's limit, contiguous,
        and in order. The bytes count as consumed for :meth:`free_report`.
        """
        at, size = placed.start % SIZE, placed.size
        if placed.kind not in _PLACEABLE or size > MAX_BODY[placed.kind]:
            raise FabricProtocolError(f"{placed.kind.name} of {size} bytes in memory")
        if at + size > SIZE or not 0 <= placed.start - self._done < SIZE:
            raise FabricProtocolError(f"{size} bytes at {placed.start}, behind {self._done}")
        self._done = placed.start + size
        return self._view[at : at + size]

    def free_report(self) -> int | None:
        """Return the position up to which memory is free; None until a quarter of SIZE is consumed.

        A returned position counts as reported.
        """
        if self._done - self._announced < _REPORT_AFTER:
            return None
        self._announced = self._done
        return self._done


class Sharing:
    """The shared memory of a connection: one area for each direction, or none."""

    def __init__(self, sock: socket.socket) -> None:
        self._is_local = self._may_begin = sock.family == socket.AF_UNIX
        """Whether descriptors can be passed and files in memory created."""
        self._out: OutMemory | None = None
        self._in: InMemory | None = None
        self._fd = -1
        """A descriptor received before its MEMORY."""

    # -- out

    @property
    def has_begun(self) -> bool:
        """Whether the other process has received memory to map."""
        return self._out is not None

    def place(self, kind: FrameKind, buffers: Sequence[Buffer]) -> Placed | None:
        """Copy a frame's body to shared memory; None before :meth:`begin` or without space."""
        return None if self._out is None else self._out.place(kind, buffers)

    def begin(self, sock: socket.socket) -> bool:
        """Create memory, pass it to the other process by MEMORY, and return True.

        Return False if the socket is full now, or for ever over TCP and after another OSError. All
        frames sent before must have been written to the socket.
        """
        if not self._may_begin:
            return False
        frame = protocol.frame(FrameKind.MEMORY, protocol.memory(SIZE))
        fd = -1
        try:
            fd = os.memfd_create("mlx5emu-fabric", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(fd, SIZE)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            view = memoryview(mmap.mmap(fd, SIZE))
            socket.send_fds(sock, (frame,), (fd,))
        except BlockingIOError:
            return False
        except OSError as error:
            log.info("trains use the socket: no shared memory: %s", error.strerror)
            self._may_begin = False
            return False
        finally:
            if fd >= 0:
                os.close(fd)
        self._out = OutMemory(view)
        return True

    # -- in

    def receive(self, sock: socket.socket, room: memoryview) -> int:
        """Read bytes into ``room``, and a descriptor until MEMORY arrived; return the bytes read.

        The result is 0 at end of file. Raises OSError, BlockingIOError without data.
        """
        if not self._is_local or self._in is not None:
            return sock.recv_into(room)  # the kernel closes unread descriptors
        flags = socket.MSG_CMSG_CLOEXEC
        count, ancillary, _, _ = sock.recvmsg_into([room], _ANCILLARY, flags)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._keep(array("i", data))
        return count

    def _keep(self, fds: Iterable[int]) -> None:
        """Keep the last received descriptor, which MEMORY may refer to, and close the others."""
        for fd in fds:
            self.close()
            self._fd = fd

    def body(self, placed: Placed) -> memoryview:
        """Return the body of a placed frame as a view of shared memory.

        Raises FabricProtocolError before MEMORY, and for a frame that :meth:`InMemory.body`
        refuses.
        """
        if self._in is None:
            raise FabricProtocolError("PLACED without MEMORY")
        return self._in.body(placed)

    def free_report(self) -> int | None:
        """Return the position up to which memory is free; None when no report is due."""
        return None if self._in is None else self._in.free_report()

    def take(self, kind: FrameKind, body: memoryview) -> None:
        """Handle MEMORY, which maps the received descriptor, or FREED from the other process.

        Raises FabricProtocolError for a second MEMORY or one without descriptor, unsuitable memory,
        FREED without memory of ours, or a wrong position.
        """
        if kind is FrameKind.MEMORY:
            size = protocol.read_memory(body)
            if self._in is not None or self._fd < 0:
                raise FabricProtocolError("MEMORY without a descriptor, or a second MEMORY")
            self._in = InMemory(_mapped(self._fd, size))
            self.close()
        elif self._out is not None:
            self._out.freed(protocol.read_freed(body))
        else:
            raise FabricProtocolError("FREED without MEMORY")

    def close(self) -> None:
        """Close a descriptor that was received and not used."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _mapped(fd: int, size: int) -> memoryview:
    """Map a file of another process that cannot raise SIGBUS, for reading only.

    Raises FabricProtocolError unless the file has the shrink seal, pages of the usual size, and
    SIZE bytes as ``size`` says.
    """
    try:
        seals, page = fcntl.fcntl(fd, fcntl.F_GET_SEALS), os.fstatvfs(fd).f_bsize
        actual = os.fstat(fd).st_size
        if not seals & fcntl.F_SEAL_SHRINK or page != mmap.PAGESIZE:
            raise FabricProtocolError(f"memory with seals {seals:#x}, in pages of {page} bytes")
        if size != SIZE or actual != SIZE:
            raise FabricProtocolError(f"memory of {actual} bytes, said to be {size}, not {SIZE}")
        mapping = mmap.mmap(fd, SIZE, access=mmap.ACCESS_READ)
    except OSError as error:
        raise FabricProtocolError(f"memory cannot be mapped: {error.strerror}") from None
    mapping.madvise(mmap.MADV_DONTDUMP)
    return memoryview(mapping)

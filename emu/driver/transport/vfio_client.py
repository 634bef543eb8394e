"""vfio-user client in plain Python: QEMU's accesses to a device, one message at a time."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple

from emu.driver.transport.awaited_socket import AwaitedSocket
from emu.server.vfio.protocol import (
    DEVICE_INFO,
    DMA_MAP,
    DMA_UNMAP,
    HEADER,
    IRQ_INFO,
    IRQ_SET,
    REGION_ACCESS,
    REGION_INFO,
    VERSION,
    DmaFlag,
    Irq,
    IrqSetFlag,
    MessageFlag,
    UnmapFlag,
    VfioCommand,
)

QEMU_CAPABILITIES = {
    "pgsizes": 4096,
    "max_msg_fds": 16,
    "max_dma_maps": 65535,
    "max_data_xfer_size": 1048576,
    "migration": {"max_bitmap_size": 268435456, "pgsize": 4096},
    "write_multiple": True,
}
"""Capabilities that QEMU 11.1 proposes."""

RW = int(DmaFlag.READ | DmaFlag.WRITE)


class VfioRefusedError(Exception):
    """Raised when the server answers with an error; ``errno`` is its number."""

    def __init__(self, errno: int) -> None:
        super().__init__(os.strerror(errno))
        self.errno = errno


class Reply(NamedTuple):
    """Reply, an error or not."""

    msg_id: int
    cmd: int
    flags: int
    errno: int
    payload: bytes


class VfioClient(AwaitedSocket):
    """One connection to a vfio-user server."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        step: Callable[[], object] | None = None,
        timeout: float = 10,
    ) -> None:
        super().__init__(path, step, timeout)
        self._next_id = 0

    def send_raw(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Send bytes unchanged."""
        socket.send_fds(self.sock, [data], list(fds))

    def send(self, cmd: int, payload: bytes = b"", fds: Sequence[int] = (), flags: int = 0) -> int:
        """Send a request with its descriptors.

        Return its message id without waiting for the reply.
        """
        self._next_id = (self._next_id + 1) & 0xFFFF
        header = HEADER.pack(self._next_id, cmd, HEADER.size + len(payload), flags, 0)
        self.send_raw(header + payload, fds)
        return self._next_id

    def receive(self) -> Reply:
        """Return the next reply, also an error, which is not raised.

        Raises EOFError when the server has closed, TimeoutError when it is late.
        """
        msg_id, cmd, size, flags, errno = HEADER.unpack(self._read(HEADER.size))
        return Reply(msg_id, cmd, flags, errno, self._read(size - HEADER.size))

    def call(self, cmd: int, payload: bytes = b"", fds: Sequence[int] = ()) -> bytes:
        """Send a request, wait for the reply and return its payload.

        Raises :class:`VfioRefusedError` for an error reply, AssertionError for the reply to another
        request, EOFError when the server has closed, and TimeoutError.
        """
        msg_id = self.send(cmd, payload, fds)
        reply = self.receive()
        assert (reply.msg_id, reply.cmd) == (msg_id, cmd)
        assert reply.flags & MessageFlag.TYPE_MASK == MessageFlag.REPLY
        if reply.flags & MessageFlag.ERROR:
            raise VfioRefusedError(reply.errno)
        return reply.payload

    def negotiate(
        self,
        capabilities: object = QEMU_CAPABILITIES,
        version: tuple[int, int] = (0, 0),
    ) -> dict[str, object]:
        """Exchange VERSION with ``capabilities`` as proposal.

        Return those that the server agrees to. Raises :class:`VfioRefusedError` if the server
        refuses, AssertionError for an invalid reply.
        """
        data = json.dumps({"capabilities": capabilities}).encode() + b"\0"
        reply = self.call(VfioCommand.VERSION, VERSION.pack(*version) + data)
        major, minor = VERSION.unpack_from(reply)
        assert major == version[0]
        assert minor <= version[1]
        assert reply[-1] == 0
        agreed: dict[str, object] = json.loads(reply[VERSION.size : -1])["capabilities"]
        return agreed

    def device_info(self) -> tuple[int, ...]:
        """Return argsz, flags, num_regions, num_irqs."""
        request = DEVICE_INFO.pack(DEVICE_INFO.size, 0, 0, 0)
        return DEVICE_INFO.unpack(self.call(VfioCommand.DEVICE_GET_INFO, request))

    def region_info(self, index: int, argsz: int = REGION_INFO.size) -> tuple[int, ...]:
        """Return argsz, flags, index, cap_offset, size, offset."""
        request = REGION_INFO.pack(argsz, 0, index, 0, 0, 0)
        return REGION_INFO.unpack(self.call(VfioCommand.DEVICE_GET_REGION_INFO, request))

    def irq_info(self, index: int) -> tuple[int, ...]:
        """Return argsz, flags, index, count."""
        request = IRQ_INFO.pack(IRQ_INFO.size, 0, index, 0)
        return IRQ_INFO.unpack(self.call(VfioCommand.DEVICE_GET_IRQ_INFO, request))

    def set_irqs(
        self,
        flags: int,
        start: int,
        count: int,
        *,
        index: int = Irq.MSIX,
        data: bytes = b"",
        fds: Sequence[int] = (),
    ) -> None:
        """Send DEVICE_SET_IRQS with the fields of linux/vfio.h.

        Raise VfioRefusedError for an error reply.
        """
        payload = IRQ_SET.pack(IRQ_SET.size + len(data), flags, index, start, count) + data
        self.call(VfioCommand.DEVICE_SET_IRQS, payload, fds)

    def enable_vector(self, vector: int) -> int:
        """Give an MSI-X vector a new eventfd, as QEMU does one by one.

        Return it for the caller to close.
        """
        fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        flags = IrqSetFlag.DATA_EVENTFD | IrqSetFlag.ACTION_TRIGGER
        self.set_irqs(flags, vector, 1, fds=[fd])
        return fd

    def dma_map(
        self,
        iova: int,
        size: int,
        *,
        fd: int | None = None,
        offset: int = 0,
        flags: int = RW,
        argsz: int = DMA_MAP.size,
    ) -> None:
        """Grant guest memory for DMA; without ``fd`` the server cannot access it.

        Raises :class:`VfioRefusedError` when the server refuses.
        """
        payload = DMA_MAP.pack(argsz, flags, offset, iova, size)
        assert self.call(VfioCommand.DMA_MAP, payload, [] if fd is None else [fd]) == b""

    def dma_unmap(self, iova: int, size: int, flags: int = 0) -> None:
        """Unmap guest memory."""
        payload = DMA_UNMAP.pack(DMA_UNMAP.size, flags, iova, size)
        assert self.call(VfioCommand.DMA_UNMAP, payload) == payload

    def dma_unmap_all(self) -> None:
        """Unmap all guest memory."""
        self.dma_unmap(0, 0, UnmapFlag.ALL)

    def read(self, region: int, offset: int, count: int) -> bytes:
        """Send REGION_READ; return the data. Raises VfioRefusedError for an error reply."""
        request = REGION_ACCESS.pack(offset, region, count)
        reply = self.call(VfioCommand.REGION_READ, request)
        assert reply[: REGION_ACCESS.size] == request
        assert len(reply) == REGION_ACCESS.size + count
        return reply[REGION_ACCESS.size :]

    def write(self, region: int, offset: int, data: bytes) -> None:
        """Send REGION_WRITE and wait for the reply."""
        header = REGION_ACCESS.pack(offset, region, len(data))
        assert self.call(VfioCommand.REGION_WRITE, header + data) == header

    def post(self, region: int, offset: int, data: bytes) -> None:
        """Send REGION_WRITE without a reply, as QEMU writes to BARs."""
        header = REGION_ACCESS.pack(offset, region, len(data))
        self.send(VfioCommand.REGION_WRITE, header + data, flags=MessageFlag.NO_REPLY)

    def reset(self) -> None:
        """Send DEVICE_RESET."""
        assert self.call(VfioCommand.DEVICE_RESET) == b""

"""vhost-user front end in plain Python: User-Mode Linux's accesses to a device.

The client has one memory region and the two queues of PCI over virtio.
"""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final

from emu.driver.transport.awaited_socket import AwaitedSocket
from emu.server.vhost.pcidev import COMMANDS, INTERRUPTS
from emu.server.vhost.protocol import (
    DESCRIPTOR,
    FEATURES,
    HEADER,
    MEM_REGION,
    MEM_TABLE,
    PCIDEV_MESSAGE,
    PROTOCOL_FEATURES,
    U16,
    U64,
    USED_ELEMENT,
    VERSION,
    VRING_ADDR,
    VRING_STATE,
    DescriptorFlag,
    PcidevOp,
    VhostMessageFlag,
    VhostRequest,
)

USER: Final = 0x7000_0000_0000
"""Address of the memory in the front end's own address space."""
QUEUE_SIZE: Final = 16
_RING_BYTES: Final = 0x1000
_BUFFERS: Final = 0x4000
_BUFFER_BYTES: Final = 0x1000
_IRQ_BYTES: Final = PCIDEV_MESSAGE.size + 4


class RefusedMessageError(Exception):
    """Raised when the server acknowledges a message with an error."""


class DriverVirtqueue:
    """Driver's side of a queue, in the first pages of the memory."""

    def __init__(self, memory: mmap.mmap, base: int, index: int) -> None:
        self._memory = memory
        self.desc = base + index * 3 * _RING_BYTES
        self.avail = self.desc + _RING_BYTES
        self.used = self.avail + _RING_BYTES
        self._shift = base
        self._made = self._seen = 0

    def describe(
        self, at: int, address: int, length: int, flags: int = 0, next_at: int = 0
    ) -> None:
        """Write the descriptor with index ``at``; notify no one."""
        where = self.desc - self._shift + DESCRIPTOR.size * at
        DESCRIPTOR.pack_into(self._memory, where, address, length, flags, next_at)

    def offer(self, head: int, index: int | None = None) -> None:
        """Make a chain available in the avail ring, without a kick.

        ``index`` is written as avail.idx instead of the next one, for invalid rings.
        """
        avail = self.avail - self._shift
        U16.pack_into(self._memory, avail + 4 + 2 * (self._made % QUEUE_SIZE), head)
        self._made = (self._made + 1) & 0xFFFF
        U16.pack_into(self._memory, avail + 2, self._made if index is None else index)

    def used_one(self) -> tuple[int, int] | None:
        """Return the head and the length of the next chain that the device has used.

        None without one.
        """
        used = self.used - self._shift
        if U16.unpack_from(self._memory, used + 2)[0] == self._seen:
            return None
        at = used + 4 + USED_ELEMENT.size * (self._seen % QUEUE_SIZE)
        self._seen = (self._seen + 1) & 0xFFFF
        head, length = USED_ELEMENT.unpack_from(self._memory, at)
        return head, length


class VhostClient(AwaitedSocket):
    """One connection to a vhost-user server."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        step: Callable[[], object] | None = None,
        *,
        size: int = 1 << 20,
        base: int = 0x10_0000,
        timeout: float = 10,
    ) -> None:
        """Connect, with a memory of ``size`` bytes from guest address ``base`` on."""
        super().__init__(path, step, timeout)
        self.base = base
        self.fd = os.memfd_create("guest", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, size)
        self.memory = mmap.mmap(self.fd, size)
        self.commands = DriverVirtqueue(self.memory, base, COMMANDS)
        self.interrupts = DriverVirtqueue(self.memory, base, INTERRUPTS)
        self.calls, self.call_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the socket and the memory; harmless when they are closed."""
        super().close()
        self.memory.close()
        for fd in (self.fd, self.calls, self.call_end):
            if fd >= 0:
                os.close(fd)
        self.fd = self.calls = self.call_end = -1

    # -- messages

    def send(
        self, request: int, payload: bytes = b"", fds: Sequence[int] = (), flags: int = VERSION
    ) -> None:
        """Send a message without waiting for a reply."""
        data = HEADER.pack(request, flags, len(payload)) + payload
        socket.send_fds(self.sock, [data], list(fds))

    def receive(self) -> tuple[int, int, bytes]:
        """Return request, flags and payload of the next reply. Raises EOFError, TimeoutError."""
        request, flags, size = HEADER.unpack(self._read(HEADER.size))
        return request, flags, self._read(size)

    def ask(self, request: int, payload: bytes = b"") -> bytes:
        """Send a request that has a reply of its own; return the reply's payload."""
        self.send(request, payload)
        return self._reply(request)

    def tell(self, request: int, payload: bytes = b"", fds: Sequence[int] = ()) -> None:
        """Send a message and wait until it is acknowledged.

        Raises RefusedMessageError for another value than 0, EOFError when the server drops the
        client, and TimeoutError.
        """
        self.send(request, payload, fds, VERSION | VhostMessageFlag.NEED_REPLY)
        if U64.unpack(self._reply(request)) != (0,):
            raise RefusedMessageError(request)

    def _reply(self, request: int) -> bytes:
        got, flags, payload = self.receive()
        assert (got, flags) == (request, VERSION | VhostMessageFlag.REPLY)
        return payload

    def negotiate(self) -> None:
        """Send all messages that precede the memory table, and check the offered features.

        Raises AssertionError if the server offers others.
        """
        self.send(VhostRequest.SET_OWNER)
        (features,) = U64.unpack(self.ask(VhostRequest.GET_FEATURES))
        assert features == FEATURES
        (offered,) = U64.unpack(self.ask(VhostRequest.GET_PROTOCOL_FEATURES))
        assert offered == PROTOCOL_FEATURES
        self.send(VhostRequest.SET_PROTOCOL_FEATURES, U64.pack(offered))
        self.tell(VhostRequest.SET_BACKEND_REQ_FD, fds=[self.call_end])
        self.tell(VhostRequest.SET_FEATURES, U64.pack(features))

    def share(self, regions: Sequence[tuple[int, int, int, int]] | None = None) -> None:
        """Send SET_MEM_TABLE for the memory, or for these regions of it.

        A region is (guest address, size, user address, offset). Raises as :meth:`tell` does.
        """
        regions = regions or [(self.base, len(self.memory), USER, 0)]
        table = b"".join(MEM_REGION.pack(*region) for region in regions)
        payload = MEM_TABLE.pack(len(regions), 0) + table
        self.tell(VhostRequest.SET_MEM_TABLE, payload, [self.fd] * len(regions))

    def place(self, index: int, ring: DriverVirtqueue, size: int = QUEUE_SIZE) -> None:
        """Send size, base 0 and ring addresses of a queue; does not enable it."""
        self.tell(VhostRequest.SET_VRING_NUM, VRING_STATE.pack(index, size))
        self.tell(VhostRequest.SET_VRING_BASE, VRING_STATE.pack(index, 0))
        desc, used, avail = (USER + at - self.base for at in (ring.desc, ring.used, ring.avail))
        payload = VRING_ADDR.pack(index, 0, desc, used, avail, 2**64 - 1)
        self.tell(VhostRequest.SET_VRING_ADDR, payload)

    def enable(self, index: int, on: bool = True) -> None:
        """Send SET_VRING_ENABLE."""
        self.tell(VhostRequest.SET_VRING_ENABLE, VRING_STATE.pack(index, on))

    def kick(self, index: int) -> None:
        """Notify the device of a queue's entries, and wait until it has processed them."""
        self.tell(VhostRequest.VRING_KICK, VRING_STATE.pack(index, 0))

    def start(self, irq_buffers: int = 8) -> None:
        """Send all messages that precede the first access, and enable both queues.

        Offers ``irq_buffers`` buffers for MSI-X messages.
        """
        self.negotiate()
        self.share()
        for index, ring in enumerate((self.commands, self.interrupts)):
            self.place(index, ring)
        for index in (COMMANDS, INTERRUPTS):
            self.enable(index)
        for number in range(irq_buffers):
            address = self.base + _BUFFERS * 2 + number * 64
            self.interrupts.describe(number, address, _IRQ_BYTES, DescriptorFlag.WRITE)
            self.interrupts.offer(number)
        self.kick(INTERRUPTS)

    # -- accesses

    def access(self, op: int, bar: int, offset: int, size: int, data: bytes = b"") -> int:
        """Send an access without a buffer for the device to write, and wait until it is used.

        Return the length that the device reports: 0 for writes, also for a refused one.
        """
        return self.exchange(PCIDEV_MESSAGE.pack(op, bar, 0, size, offset) + data, 0)[0]

    def exchange(self, out: bytes, room: int) -> tuple[int, bytes]:
        """Put one access into the command queue, kick, and wait for the device.

        Return the number of bytes that the device reports as written, and ``room`` bytes of the
        read buffer. The buffer is all-ones where the device wrote nothing.
        """
        at = self.base + _BUFFERS * 3
        where = at - self.base
        self.memory[where : where + len(out)] = out
        self.memory[where + _BUFFER_BYTES : where + _BUFFER_BYTES + room] = b"\xff" * room
        self.commands.describe(0, at, len(out), DescriptorFlag.NEXT if room else 0, 1)
        self.commands.describe(1, at + _BUFFER_BYTES, room, DescriptorFlag.WRITE)
        self.commands.offer(0)
        self.kick(COMMANDS)
        used = self.commands.used_one()
        assert used is not None
        assert used[0] == 0
        return used[1], self.memory[where + _BUFFER_BYTES : where + _BUFFER_BYTES + room]

    def read(self, bar: int, offset: int, size: int) -> bytes:
        """Read a BAR; return all-ones when it was refused."""
        return self.exchange(PCIDEV_MESSAGE.pack(PcidevOp.MMIO_READ, bar, 0, size, offset), size)[1]

    def write(self, bar: int, offset: int, data: bytes) -> None:
        """Write a BAR."""
        self.access(PcidevOp.MMIO_WRITE, bar, offset, len(data), data)

    def config_read(self, offset: int, size: int) -> bytes:
        """Read configuration space."""
        out = PCIDEV_MESSAGE.pack(PcidevOp.CFG_READ, 0, 0, size, offset)
        return self.exchange(out, 8)[1][:size]

    def config_write(self, offset: int, data: bytes) -> None:
        """Write configuration space; the message has eight bytes of data, like the kernel's."""
        self.access(PcidevOp.CFG_WRITE, 0, offset, len(data), data.ljust(8, b"\0"))

    def interrupt(self) -> int | None:
        """Return the data of the next MSI-X message, and offer its buffer again.

        None without a message.
        """
        used = self.interrupts.used_one()
        if used is None:
            return None
        head, length = used
        assert length == _IRQ_BYTES
        where = _BUFFERS * 2 + head * 64
        op, _, _, size, _ = PCIDEV_MESSAGE.unpack_from(self.memory, where)
        assert (op, size) == (PcidevOp.MSI, 4)
        data = where + PCIDEV_MESSAGE.size
        message = int.from_bytes(self.memory[data : data + 4], "little")
        self.interrupts.offer(head)
        self.kick(INTERRUPTS)
        return message

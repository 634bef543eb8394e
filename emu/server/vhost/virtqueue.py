"""The device's side of a split virtqueue (Virtual I/O Device 1.2, 2.7).

The driver may write the rings at any time, so each field is read once and then checked. Indirect
descriptors and event indices are not offered.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from emu.device.ports import Buffer, DmaError
from emu.server.vfio.memory import DmaMap
from emu.server.vhost.protocol import (
    DESCRIPTOR,
    MAX_ACCESS,
    NO_INTERRUPT,
    PCIDEV_MESSAGE,
    U16,
    USED_ELEMENT,
    DescriptorFlag,
    VhostProtocolError,
)

_NEXT: Final = int(DescriptorFlag.NEXT)
_WRITE: Final = int(DescriptorFlag.WRITE)
_INDIRECT: Final = int(DescriptorFlag.INDIRECT)
_RING: Final = 4
"""Offset of the entries in either ring, after flags and idx."""
_IDX: Final = 2
_MAX_BYTES: Final = PCIDEV_MESSAGE.size + 2 * MAX_ACCESS
_MAX_CHAIN: Final = 8
"""Maximum descriptors of a chain, each of which takes time; Linux uses at most 3
(virt-pci.c: um_pci_send_cmd)."""


class Chain(NamedTuple):
    """An available buffer of the driver: a chain of descriptors."""

    head: int
    out: bytes
    """Bytes from the driver."""
    writable: list[tuple[int, int]]
    """Addresses and lengths of the memory that the device may write."""

    @property
    def capacity(self) -> int:
        """Number of bytes that the device may write."""
        return sum(length for _, length in self.writable)


class Virtqueue:
    """A ring of ``size`` entries in the front end's memory."""

    def __init__(
        self, memory: DmaMap, size: int, desc: int, avail: int, used: int, base: int
    ) -> None:
        """Map the rings at these guest addresses. Raises :class:`VhostProtocolError`."""
        self._memory = memory
        self.size = size
        self._views: list[memoryview] = []
        try:
            self._desc = self._view(desc, DESCRIPTOR.size * size)
            self._avail = self._view(avail, _RING + U16.size * size)
            self._used = self._view(used, _RING + USED_ELEMENT.size * size)
        except DmaError as error:
            self.release()
            raise VhostProtocolError(f"a ring outside the memory: {error}") from None
        self.next = base
        """Index of the entry that is taken next."""
        (self._used_index,) = U16.unpack_from(self._used, _IDX)

    def release(self) -> None:
        """Release the views of the rings, which can be unmapped then; call no method later."""
        for view in self._views:
            view.release()

    def _view(self, address: int, length: int) -> memoryview:
        view = self._memory.view(address, length)
        self._views.append(view)
        return view

    @property
    def wants_calls(self) -> bool:
        """Whether the driver requests a call for a used buffer."""
        return not U16.unpack_from(self._avail)[0] & NO_INTERRUPT

    def take(self) -> Chain | None:
        """Return the next available buffer and advance ``next``.

        None when the driver has offered none. Raises :class:`VhostProtocolError` for an invalid
        index or chain, or a buffer outside the memory.
        """
        waiting = (U16.unpack_from(self._avail, _IDX)[0] - self.next) & 0xFFFF
        if not waiting:
            return None
        if waiting > self.size:
            raise VhostProtocolError(f"{waiting} buffers available in a ring of {self.size}")
        (head,) = U16.unpack_from(self._avail, _RING + U16.size * (self.next % self.size))
        self.next = (self.next + 1) & 0xFFFF
        return self._chain(head)

    def _chain(self, head: int) -> Chain:
        """Read the chain of descriptors at ``head``: bytes from the driver, and memory to write.

        Raises :class:`VhostProtocolError` for an index past the ring, an indirect descriptor, too
        many bytes or descriptors, or a loop. Also raises for a readable descriptor after a writable
        one, or memory outside the map.
        """
        out, writable, total, at = b"", [], 0, head
        for _ in range(min(self.size, _MAX_CHAIN)):
            if at >= self.size:
                raise VhostProtocolError(f"descriptor {at} of {self.size}")
            address, length, flags, following = DESCRIPTOR.unpack_from(
                self._desc, DESCRIPTOR.size * at
            )
            total += length
            if flags & _INDIRECT or total > _MAX_BYTES:
                raise VhostProtocolError(f"a descriptor with flags {flags:#x}, {length:#x} bytes")
            if flags & _WRITE:
                writable.append((address, length))
            elif writable:
                raise VhostProtocolError("a readable descriptor follows a writable one")
            else:
                out += self._read(address, length)
            if not flags & _NEXT:
                return Chain(head, out, writable)
            at = following
        raise VhostProtocolError("a chain of descriptors is a loop, or too long")

    def give(self, chain: Chain, data: Buffer = b"") -> None:
        """Write ``data``, which must fit, into the chain's memory; put the chain on the used ring.

        Does not notify the driver. Raises :class:`VhostProtocolError` for a buffer outside the
        memory.
        """
        done = 0
        for address, length in chain.writable:
            if done < len(data):
                self._write(address, data[done : done + length])
                done += length
        at = _RING + USED_ELEMENT.size * (self._used_index % self.size)
        USED_ELEMENT.pack_into(self._used, at, chain.head, len(data))
        self._used_index = (self._used_index + 1) & 0xFFFF
        U16.pack_into(self._used, _IDX, self._used_index)

    def _read(self, address: int, length: int) -> bytes:
        """Return guest memory; raise :class:`VhostProtocolError` outside of it."""
        try:
            return self._memory.read(address, length)
        except DmaError as error:
            raise VhostProtocolError(f"a buffer outside the memory: {error}") from None

    def _write(self, address: int, data: Buffer) -> None:
        """Write guest memory; raise :class:`VhostProtocolError` outside of it."""
        try:
            self._memory.write(address, data)
        except DmaError as error:
            raise VhostProtocolError(f"a buffer outside the memory: {error}") from None

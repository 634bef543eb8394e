"""Device memory (MEMIC): memory on the adapter, at the end of BAR 0, allocated in pages.

Processes map their pages and access them by loads and stores. Queue pairs use memory keys with
access mode MEMIC. An area of the same size for each atomic operation precedes the memory. A load or
store in such an area acts on the byte at the same offset in the memory.

Sources: PRM "Device memory"; hw/dm.c of mlx5_ib; rdma-core's tests/test_mlx5_dm_ops.py.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from emu.device.ports import Buffer

MEMIC_PAGE: Final = 4096
MEMIC_BYTES: Final = 128 << 10
"""Size of ConnectX-5 and later (ibv_query_device_ex: max_dm_size)."""


class MemicOperation(IntEnum):
    """Atomic operations by loads and stores (memic_operation_type)."""

    INCREMENT = 0
    """A store adds its value."""
    TEST_AND_SET = 1
    """A load sets the byte to 1."""


AREA_BYTES: Final = MEMIC_BYTES * (1 + len(MemicOperation))
"""Bytes at the end of BAR 0 for operations and memory."""


class Memic(Object):
    """Contiguous pages of device memory with one owner."""

    __slots__ = ("length", "operations", "start")
    kind = "device memory"
    numbering = Numbering(lambda _made: 1 << 16)

    def __init__(self, start: int, length: int) -> None:
        """Cover ``length`` bytes from offset ``start`` in device memory, both whole pages."""
        super().__init__()
        self.start = start
        self.length = length
        self.operations: set[MemicOperation] = set()
        """The atomic operations that the driver has enabled."""


class MemicArea:
    """All device memory of a function. Every access by BAR 0 offset is range-checked."""

    def __init__(self, bar_end: int) -> None:
        """Place the area at the end of BAR 0, which has ``bar_end`` bytes."""
        self.first = bar_end - AREA_BYTES
        """Offset of the area in BAR 0, where the first operation begins."""
        self.start = bar_end - MEMIC_BYTES
        """Offset of the memory in BAR 0."""
        self._bytes = bytearray(MEMIC_BYTES)
        self._owners: list[Memic | None] = [None] * (MEMIC_BYTES // MEMIC_PAGE)
        self.is_used = self.was_used = False
        """Whether any page has an owner; whether any page has had one."""

    def is_free(self, start: int, length: int) -> bool:
        """Return whether all pages of the range exist and have no owner.

        ``start`` counts in BAR 0.
        """
        first = start - self.start
        if first < 0 or first + length > MEMIC_BYTES:
            return False
        owners = self._owners[first // MEMIC_PAGE : -(-(first + length) // MEMIC_PAGE)]
        return not any(owners)

    def take(self, memic: Memic) -> None:
        """Assign the pages of ``memic`` to it, without a check that they are free."""
        self._own(memic, memic)

    def give_back(self, memic: Memic) -> None:
        """Free the pages of ``memic`` and fill them with zeros."""
        self._own(memic, None)
        self._bytes[memic.start : memic.start + memic.length] = bytes(memic.length)

    def _own(self, memic: Memic, owner: Memic | None) -> None:
        """Set the owner of the pages of ``memic``, and update ``is_used`` and ``was_used``."""
        for page in range(memic.start // MEMIC_PAGE, (memic.start + memic.length) // MEMIC_PAGE):
            self._owners[page] = owner
        self.is_used = any(self._owners)
        self.was_used = True

    def owner(self, start: int, length: int) -> Memic | None:
        """Return the owner of the whole range; None if any byte has none or another one.

        ``start`` is an offset in BAR 0.
        """
        first = start - self.start
        if not 0 <= first < MEMIC_BYTES:
            return None
        owner = self._owners[first // MEMIC_PAGE]
        if owner is None or first + length > owner.start + owner.length:
            return None
        return owner

    def view(self, start: int, length: int) -> memoryview:
        """Return a view of a range that has an owner."""
        first = start - self.start
        return memoryview(self._bytes)[first : first + length]

    def operation_address(self, memic: Memic, operation: MemicOperation) -> int:
        """Return the BAR 0 offset at which an operation acts on the first byte of the pages."""
        return self.first + operation * MEMIC_BYTES + memic.start

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes of a load from BAR 0, at ``offset`` in the operations or the memory.

        Zeros where the whole range has no single owner, or the owner has not enabled the operation.
        A one-byte load of TEST_AND_SET then sets the byte to 1.
        """
        operation, address = self._decode(offset)
        memic = self.owner(address, length)
        if memic is None or not (operation is None or operation in memic.operations):
            return bytes(length)
        data = bytes(self.view(address, length))
        if operation is MemicOperation.TEST_AND_SET and length == 1:
            self.view(address, 1)[0] = 1
        return data

    def write(self, offset: int, data: Buffer) -> None:
        """Store to BAR 0, at ``offset`` in the operations or the memory.

        Ignored where the whole range has no single owner, or the owner has not enabled the
        operation. INCREMENT adds one byte; a store in the area of TEST_AND_SET has no effect.
        """
        operation, address = self._decode(offset)
        memic = self.owner(address, len(data))
        if memic is None:
            return
        if operation is None:
            self.view(address, len(data))[:] = data
        elif operation in memic.operations and operation is MemicOperation.INCREMENT:
            self._increment(address, data)

    def _increment(self, address: int, data: Buffer) -> None:
        """Add a single byte, modulo 256; stores of other sizes have no effect.

        The sizes are device_mem_cap.increment_sizes.
        """
        if len(data) == 1:
            byte = self.view(address, 1)
            byte[0] = byte[0] + data[0] & 0xFF

    def _decode(self, offset: int) -> tuple[MemicOperation | None, int]:
        """Return the operation of an offset in BAR 0, None for the memory, and the byte's offset.

        The second value is the offset in BAR 0 of the byte that the operation acts on.
        """
        index, within = divmod(offset - self.first, MEMIC_BYTES)
        operation = MemicOperation(index) if index < len(MemicOperation) else None
        return operation, self.start + within

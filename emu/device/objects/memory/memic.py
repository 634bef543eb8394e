"""Device memory (MEMIC): memory on the adapter, at the end of BAR 0, handed out in pages.

Processes map their pages and reach them by loads and stores; queue pairs reach them through memory
keys whose access mode is MEMIC. Before the memory itself lie as many bytes for each atomic
operation: a store to, or a load from, an address there acts on the byte at the same distance.

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
"""What ConnectX-5 and later have (ibv_query_device_ex: max_dm_size)."""


class MemicOperation(IntEnum):
    """Atomic operations by loads and stores (memic_operation_type)."""

    INCREMENT = 0
    """A store adds its value."""
    TEST_AND_SET = 1
    """A load leaves 1 behind."""


AREA_BYTES: Final = MEMIC_BYTES * (1 + len(MemicOperation))
"""What the end of BAR 0 needs for operations and memory."""


class Memic(Object):
    """Some pages of device memory that belong together."""

    __slots__ = ("length", "operations", "start")
    kind = "device memory"
    numbering = Numbering(lambda _made: 1 << 16)

    def __init__(self, start: int, length: int) -> None:
        """``start`` is an offset in device memory, ``length`` in bytes; both are whole pages."""
        super().__init__()
        self.start = start
        self.length = length
        self.operations: set[MemicOperation] = set()
        """The atomic operations that have been asked for."""


class MemicArea:
    """All device memory of a function. Offsets in BAR 0 are checked, whoever names them."""

    def __init__(self, bar_end: int) -> None:
        """``bar_end`` is the size of BAR 0, in bytes."""
        self.first = bar_end - AREA_BYTES
        """Where the area begins in BAR 0: with the first operation."""
        self.start = bar_end - MEMIC_BYTES
        """Where memory begins in BAR 0."""
        self._bytes = bytearray(MEMIC_BYTES)
        self._owners: list[Memic | None] = [None] * (MEMIC_BYTES // MEMIC_PAGE)
        self.is_used = self.was_used = False
        """Whether anybody has pages; whether anybody has or had some."""

    def is_free(self, start: int, length: int) -> bool:
        """Whether these pages exist and nobody has them; ``start`` is an offset in BAR 0."""
        first = start - self.start
        if first < 0 or first + length > MEMIC_BYTES:
            return False
        owners = self._owners[first // MEMIC_PAGE : -(-(first + length) // MEMIC_PAGE)]
        return not any(owners)

    def take(self, memic: Memic) -> None:
        """Give free pages to their owner."""
        self._own(memic, memic)

    def give_back(self, memic: Memic) -> None:
        """Clear the pages and free them."""
        self._own(memic, None)
        self._bytes[memic.start : memic.start + memic.length] = bytes(memic.length)

    def _own(self, memic: Memic, owner: Memic | None) -> None:
        for page in range(memic.start // MEMIC_PAGE, (memic.start + memic.length) // MEMIC_PAGE):
            self._owners[page] = owner
        self.is_used = any(self._owners)
        self.was_used = True

    def owner(self, start: int, length: int) -> Memic | None:
        """Who has all of this range; ``start`` is an offset in BAR 0."""
        first = start - self.start
        if not 0 <= first < MEMIC_BYTES:
            return None
        owner = self._owners[first // MEMIC_PAGE]
        if owner is None or first + length > owner.start + owner.length:
            return None
        return owner

    def view(self, start: int, length: int) -> memoryview:
        """The bytes of a range that has an owner."""
        first = start - self.start
        return memoryview(self._bytes)[first : first + length]

    def operation_address(self, memic: Memic, operation: MemicOperation) -> int:
        """Where in BAR 0 an operation on the pages' first byte is."""
        return self.first + operation * MEMIC_BYTES + memic.start

    def read(self, offset: int, length: int) -> bytes:
        """A load from BAR 0; zeros where nobody has memory."""
        operation, place = self._place(offset)
        memic = self.owner(place, length)
        if memic is None or not (operation is None or operation in memic.operations):
            return bytes(length)
        data = bytes(self.view(place, length))
        if operation is MemicOperation.TEST_AND_SET and length == 1:
            self.view(place, 1)[0] = 1
        return data

    def write(self, offset: int, data: Buffer) -> None:
        """A store to BAR 0; nothing happens where nobody has memory."""
        operation, place = self._place(offset)
        memic = self.owner(place, len(data))
        if memic is None:
            return
        if operation is None:
            self.view(place, len(data))[:] = data
        elif operation in memic.operations and operation is MemicOperation.INCREMENT:
            self._increment(place, data)

    def _increment(self, place: int, data: Buffer) -> None:
        """Only single bytes are added (device_mem_cap.increment_sizes)."""
        if len(data) == 1:
            byte = self.view(place, 1)
            byte[0] = byte[0] + data[0] & 0xFF

    def _place(self, offset: int) -> tuple[MemicOperation | None, int]:
        """The operation that an offset in BAR 0 means, if any, and the memory it is about."""
        index, within = divmod(offset - self.first, MEMIC_BYTES)
        operation = MemicOperation(index) if index < len(MemicOperation) else None
        return operation, self.start + within

"""The MSI-X table and the pending bit array in BAR 0 (PCIe 5.0, 6.1.4 and 7.7.2).

The client programs the vectors itself, by DEVICE_SET_IRQS, so the table only stores what the guest
writes.
"""

from __future__ import annotations

from typing import Final

from emu.device.ports import Buffer, Interrupts
from emu.device.state.hca import MSIX_VECTORS

MSIX_TABLE: Final = 0x2000
MSIX_PBA: Final = 0x3000
MSIX_ENTRY_BYTES: Final = 16
_MASKED_ENTRY: Final = bytes(12) + b"\x01\0\0\0"


class MsixStructures:
    """The MSI-X table of one function, fully masked at first, and its pending bits."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._table = bytearray(_MASKED_ENTRY * MSIX_VECTORS)

    def write(self, offset: int, data: Buffer) -> bool:
        """Write to the table at this offset of BAR 0; return False behind the table.

        The offset must not be below the table. The table is only stored: vectors are not changed.
        """
        at = offset - MSIX_TABLE
        if at + len(data) > len(self._table):
            return False
        self._table[at : at + len(data)] = data
        return True

    def read(self, offset: int, length: int) -> bytes | None:
        """Return bytes of the table or of the pending bits, at this offset of BAR 0.

        None for a range that is not wholly inside one of them.
        """
        at = offset - MSIX_TABLE
        if at >= 0 and at + length <= len(self._table):
            return bytes(self._table[at : at + length])
        at = offset - MSIX_PBA
        if at >= 0 and at + length <= MSIX_VECTORS // 8:
            return self._pending_bits()[at : at + length]
        return None

    def _pending_bits(self) -> bytes:
        pending = sum(1 << v for v in range(MSIX_VECTORS) if self._interrupts.pending(v))
        return pending.to_bytes(MSIX_VECTORS // 8, "little")

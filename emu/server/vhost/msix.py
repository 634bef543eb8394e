"""The MSI-X table of this transport, which writes the messages itself.

With vfio-user the client does this; here the guest writes the table in the BAR and receives each
message through a virtqueue. Semantics: PCI Express Base 5.0, 6.1.4 and 7.7.2.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from emu.device.ports import Buffer, PciFunction
from emu.server.vfio.interrupts import MsixVectors

_ENTRY: Final = Struct("<QII")
"""Message address, message data, vector control."""
_MASKED: Final = _ENTRY.pack(0, 0, 1)
_MSIX_ID: Final = 0x11
_ENABLE: Final = 1 << 15
_FUNCTION_MASK: Final = 1 << 14
_FIRST_POINTER: Final = 0x34
_MAX_CAPABILITIES: Final = 48


class MsixTable(MsixVectors):
    """The MSI-X vectors of a function, with table and control register."""

    def __init__(self) -> None:
        super().__init__()
        self.post: Callable[[int, int], bool] = _no_guest
        """Callback that writes a message (address, data) to the guest; False without a buffer."""
        self._function: PciFunction | None = None
        self._table = bytearray()
        self._at = 0
        self._bar = 0
        self._control = 0
        self._is_on = False

    def serve(self, function: PciFunction) -> None:
        """Find the function's MSI-X table by its capability, and mask all vectors.

        Raises ValueError for a function without MSI-X.
        """
        self._function = function
        self._control = _capability(function) + 2
        (place,) = Struct("<I").unpack(function.config_read(self._control + 2, 4))
        self._bar, self._at = place & 7, place & ~7
        self.clear_pending()
        self.control_written()

    def clear_pending(self) -> None:
        """Clear the latched vectors and mask every vector, as a reset of the function does."""
        super().clear_pending()
        self._table = bytearray(_MASKED * self.count)
        self._is_on = False

    def clear(self) -> None:
        """Drop the state of a guest that has left."""
        self.post = _no_guest
        super().clear()

    def control_written(self) -> None:
        """Read the MSI-X control register after a possible write; do nothing before :meth:`serve`.

        When the register enables MSI-X without Function Mask, send the latched vectors that are
        unmasked.
        """
        if self._function is None:
            return
        (control,) = Struct("<H").unpack(self._function.config_read(self._control, 2))
        is_on = control & (_ENABLE | _FUNCTION_MASK) == _ENABLE
        if is_on != self._is_on:
            self._is_on = is_on
            self.send_pending()

    def written(self, bar: int, offset: int, data: Buffer) -> None:
        """Copy ``data`` into the table if a BAR write lies inside it; then send latched vectors.

        Ignores any other write. Vectors go out only if unmasked and MSI-X is enabled.
        """
        first = offset - self._at
        if bar != self._bar or not 0 <= first <= len(self._table) - len(data):
            return
        self._table[first : first + len(data)] = data
        self.send_pending()

    def _send(self, vector: int) -> bool:
        """Post the vector's message.

        Return False while MSI-X is off, masked, or no buffer is free.
        """
        if not self._is_on:
            return False
        address, data, control = _ENTRY.unpack_from(self._table, vector * _ENTRY.size)
        return not control & 1 and self.post(address, data)


def _capability(function: PciFunction) -> int:
    """Return the offset of the function's MSI-X capability in configuration space.

    Raises ValueError without one.
    """
    (at,) = function.config_read(_FIRST_POINTER, 1)
    for _ in range(_MAX_CAPABILITIES):
        cap_id, following = function.config_read(at, 2)
        if cap_id == _MSIX_ID:
            return at
        at = following
    raise ValueError("a function without MSI-X cannot be served over vhost-user")


def _no_guest(_address: int, _data: int) -> bool:
    """Return False: no guest is connected."""
    return False

"""What the gateway in the vendor-specific capability reads: the start of BAR 0, in words."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class CrSpace:
    """Implements :class:`emu.pci.vsc.CrSpace`."""

    size = 0x2000

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        """``read`` gives the bytes at an offset of BAR 0."""
        self._read = read

    def read(self, address: int) -> int:
        """The 32-bit word at ``address``."""
        return int.from_bytes(self._read(address & ~3, 4), "big")

    def write(self, address: int, value: int) -> None:
        """Ignore the write: the gateway can only read here."""
        log.debug("VSC write of %#x at %#x ignored", value, address)

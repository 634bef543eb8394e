"""The CR space that the gateway in the vendor-specific capability reads, in 32-bit words.

CR space holds the start of BAR 0, and at higher addresses the few registers that tools need:
mstflint reads the chip's id and the state of its static configuration before it runs a command.

Source: mtcr_ul_icmd_cif.c of mstflint (HW_ID_ADDR, STAT_CFG_NOT_DONE_ADDR_*).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

HW_ID: Final = 0xF_0014
"""Chip id in the lower half, revision above it."""
STAT_CFG_NOT_DONE: Final = (0xB_0004, 0xB_5E04, 0xB_5F04)
"""Bit 31 is set while the configuration is not done. ConnectX-4, ConnectX-5, and later ones."""


class CrSpace:
    """Implements :class:`emu.device.pci.vsc.CrSpaceAccess`."""

    size = 0x2000

    def __init__(self, read: Callable[[int, int], bytes], hw_id: int) -> None:
        """Create the CR space; ``read`` returns the bytes at an offset of BAR 0."""
        self._read = read
        self.far_words = {HW_ID: hw_id, **dict.fromkeys(STAT_CFG_NOT_DONE, 0)}

    def read(self, address: int) -> int:
        """Return the 32-bit word at ``address``."""
        return int.from_bytes(self._read(address & ~3, 4), "big")

    def write(self, address: int, value: int) -> None:
        """Ignore the write: CR space is read-only here."""
        log.debug("VSC write of %#x at %#x ignored", value, address)

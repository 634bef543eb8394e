"""What the gateway in the vendor-specific capability reads, in words.

It is the start of BAR 0, and further on the few registers that tools need: mstflint looks there
for the chip, and whether its static configuration is done, before it runs a command.

Source: mtcr_ul_icmd_cif.c of mstflint (HW_ID_ADDR, STAT_CFG_NOT_DONE_ADDR_*).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

HW_ID: Final = 0xF_0014
"""Chip in the lower half, revision above it."""
STAT_CFG_NOT_DONE: Final = (0xB_0004, 0xB_5E04, 0xB_5F04)
"""Bit 31 says that the configuration is not done. ConnectX-4, ConnectX-5, and later ones."""


class CrSpace:
    """Implements :class:`emu.device.pci.vsc.CrSpace`."""

    size = 0x2000

    def __init__(self, read: Callable[[int, int], bytes], hw_id: int) -> None:
        """``read`` gives the bytes at an offset of BAR 0."""
        self._read = read
        self.far_words = {HW_ID: hw_id, **dict.fromkeys(STAT_CFG_NOT_DONE, 0)}

    def read(self, address: int) -> int:
        """The 32-bit word at ``address``."""
        return int.from_bytes(self._read(address & ~3, 4), "big")

    def write(self, address: int, value: int) -> None:
        """Ignore the write: the gateway can only read here."""
        log.debug("VSC write of %#x at %#x ignored", value, address)

"""The gateway's space of a NIC without DRAM: the initialization segment, and the NIC behind it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.transmit import FRAME_TX_POINT
from emu.device.engine.nodnic import registers
from emu.device.function.bar0 import CMDQ_ADDR_L, NODNIC_AT, Bar0

if TYPE_CHECKING:
    from emu.device.port.eth.frame import Frame
    from emu.device.state.hca import Hca

CLEAR_INTERRUPT: Final = 0x100C
_WORD: Final = 4


class BootNic:
    """Implements :class:`emu.device.pci.vsc.WordSpace` for the function's current HCA."""

    def __init__(self, hca: Callable[[], Hca], bar0: Callable[[], Bar0]) -> None:
        self._hca = hca
        self._bar0 = bar0

    def read(self, address: int) -> int | None:
        """Return a word of the segment or of the NIC; None elsewhere."""
        hca = self._hca()
        word = _read(hca, self._bar0(), address)
        if word is not None and hca.probes.tracer:
            hca.probes.tracer.mmio("read", address, word.to_bytes(_WORD, "big"))
        return word

    def write(self, address: int, value: int) -> bool:
        """Store a word of the NIC, or the segment's ``nic_interface``; return False elsewhere.

        An interrupt, which this NIC does not raise, may be cleared. A function that has failed
        stores nothing.
        """
        hca = self._hca()
        if hca.nodnic is None or hca.health.has_failed:
            return False
        if hca.probes.tracer:
            hca.probes.tracer.mmio("write", address, value.to_bytes(_WORD, "big"))
        if address == CMDQ_ADDR_L:
            self._bar0().write(address, value.to_bytes(_WORD, "big"))
            return True
        if address == CLEAR_INTERRUPT:
            return True
        forward = partial(_forward, hca)
        return registers.write(hca, hca.nodnic, address - NODNIC_AT, value, forward)


def _read(hca: Hca, bar0: Bar0, address: int) -> int | None:
    if 0 <= address < NODNIC_AT and not address % _WORD:
        return int.from_bytes(bar0.read(address, _WORD), "big")
    if hca.nodnic is None:
        return None
    return registers.read(hca.nic_vport, hca.nodnic, address - NODNIC_AT)


def _forward(hca: Hca, frame: Frame) -> None:
    """Put a frame on the wire, unless a fault plan does something else with it."""
    if hca.probes.faults is not None:
        hca.probes.faults.show(FRAME_TX_POINT, frame, hca.vhca)
    else:
        hca.switch.forward(hca, frame)

"""Checks of an Ethernet port on received frames (PRM "PCMR"; core/port.c).

The driver writes the register for ``ethtool -K rx-all``. Only the frame check sequence is
configurable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware_cmds.regs.registers import AccessRegister, of_part
from layouts.enums import RegId
from layouts.regs import port_regs

if TYPE_CHECKING:
    from emu.device.port.eth.port import EthPort


def _pcmr(port: EthPort, reg: port_regs.pcmr_reg) -> None:
    """Fill in whether the frame check sequence is checked; nothing else can be configured."""
    reg.entropy_force_cap = reg.entropy_calc_cap = reg.entropy_gre_calc_cap = 0
    reg.entropy_force = reg.entropy_calc = reg.entropy_gre_calc = 0
    reg.rx_ts_over_crc_cap = reg.rx_ts_over_crc = 0
    reg.fcs_cap = 1
    reg.fcs_chk = port.checks_fcs


def _set_pcmr(port: EthPort, reg: port_regs.pcmr_reg) -> None:
    """Set whether frames are checked; other bits have no capability and no effect."""
    port.checks_fcs = bool(reg.fcs_chk)
    _pcmr(port, reg)


_REGISTERS: dict[int, AccessRegister[EthPort]] = {
    RegId.PCMR: AccessRegister(
        port_regs.pcmr_reg, _pcmr, _set_pcmr, gate="ports_check", is_shared=True
    )
}
REGISTERS = of_part(lambda hca: hca.eth, _REGISTERS)
"""Registers of an Ethernet function."""

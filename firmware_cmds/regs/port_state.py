"""Register by which a driver enables and disables its port (PRM "PAOS")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine import lifecycle
from emu.device.errors import BadParamError
from firmware_cmds.regs.registers import AccessRegister
from layouts.enums.regs import PortStatus, RegId
from layouts.regs import reg as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


def _paos(hca: Hca, reg: layout.paos_reg) -> None:
    """Fill in the driver's setting and the port's state."""
    reg.admin_status = PortStatus.UP if hca.port.admin_up else PortStatus.DOWN
    reg.oper_status = PortStatus.UP if hca.vport.is_up else PortStatus.DOWN


def _set_paos(hca: Hca, reg: layout.paos_reg) -> None:
    """Enable or disable the port, if ``ase`` is set; the change of the link raises an event.

    The manager owns the port: a write from a function behind its switch has no effect. Its driver
    disables the port when its interface starts (core/en_main.c: mlx5e_nic_enable). Linux does not
    write the register on InfiniBand; rdma-core's driver over vfio does (tests/mlx5_base.py).

    With ``ase``, refuse another admin_status than UP or DOWN with BAD_PARAM_ERR.
    """
    if reg.ase:
        if reg.admin_status not in (PortStatus.UP, PortStatus.DOWN):
            raise BadParamError("unknown port status", f"{reg.admin_status}")
        if hca.vhca.is_manager:
            lifecycle.set_admin(hca, up=reg.admin_status == PortStatus.UP)
    _paos(hca, reg)


REGISTERS: dict[int, AccessRegister[Hca]] = {
    RegId.PAOS: AccessRegister(layout.paos_reg, _paos, _set_paos)
}

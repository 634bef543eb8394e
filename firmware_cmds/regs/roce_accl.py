"""Register ROCE_ACCL: loss recovery of a port's RoCE connections.

A write sets the fields whose ``*_field_select`` is set; a read reports in these bits which fields
can be set. The kernel's driver does not use the register: administrators do, by mstreg or mlxreg.
Settings last until the adapter loses power.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from emu.device.errors import BadParamError
from firmware_cmds.regs.registers import AccessRegister, of_part
from layouts.enums.regs import RegId
from layouts.regs.roce_accl import roce_accl_reg

if TYPE_CHECKING:
    from emu.device.port.eth.roce.link import RoceLink

_NOT_MODELLED = (
    "roce_tx_window_field_select", "roce_slow_restart_field_select",
    "roce_slow_restart_idle_field_select", "min_ack_timeout_limit_disabled_field_select",
    "adaptive_routing_forced_en_field_select", "adp_retx_profile_select",
)  # fmt: skip


def _roce_accl(link: RoceLink, reg: roce_accl_reg) -> None:
    """Fill in the current settings; both fields of the model are reported as settable."""
    recovery = link.recovery
    reg.buf[:] = bytes(len(reg.buf))
    reg.roce_adp_retrans_field_select = reg.selective_repeat_forced_en_field_select = 1
    reg.roce_adp_retrans_en = recovery.adaptive_retransmission
    reg.selective_repeat_forced_en = recovery.selective_repeat


def _set_roce_accl(link: RoceLink, reg: roce_accl_reg) -> None:
    """Set the selected fields: adaptive retransmission, selective repeat.

    Refuse another selected field with BAD_PARAM_ERR; nothing is then changed.
    """
    for name in _NOT_MODELLED:
        if getattr(reg, name):
            raise BadParamError("field of ROCE_ACCL is not supported", name)
    if reg.roce_adp_retrans_field_select:
        link.recovery = replace(
            link.recovery, adaptive_retransmission=bool(reg.roce_adp_retrans_en)
        )
    if reg.selective_repeat_forced_en_field_select:
        link.recovery = replace(
            link.recovery, selective_repeat=bool(reg.selective_repeat_forced_en)
        )
    _roce_accl(link, reg)


_REGISTERS: dict[int, AccessRegister[RoceLink]] = {
    RegId.ROCE_ACCL: AccessRegister(roce_accl_reg, _roce_accl, _set_roce_accl, gate="roce_accl"),
}
REGISTERS = of_part(lambda hca: hca.roce, _REGISTERS)
"""Registers of an Ethernet function with RoCE."""

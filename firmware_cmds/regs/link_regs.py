"""Registers of an Ethernet link: its speed and its error correction (PRM "PTYS", "PPLM").

The driver writes them for ethtool -s and --set-fec, and takes the port down and up afterwards
(core/en_ethtool.c: mlx5_toggle_port_link).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.errors import BadParamError
from emu.device.port.eth.physical import fec
from firmware_cmds.regs.registers import AccessRegister, of_part
from layouts.enums.regs import AnStatus, ConnectorType, ProtoMask, RegId
from layouts.regs import port_regs
from layouts.regs import reg as layout

if TYPE_CHECKING:
    from emu.device.port.eth.vport import NicVport

_MBPS_PER_RATE = 100


def _ptys(vport: NicVport, reg: layout.ptys_reg) -> None:
    """Fill in the supported modes, the modes that the driver has chosen, and the active one.

    An extended port also reports its modes as legacy masks. Of the two masks of the choice one is
    0, so that the driver sees which one it wrote. Leave it zero for another proto_mask. The active
    mode is 0 while the link is down.
    """
    if reg.proto_mask != ProtoMask.EN:
        return
    port = vport.port
    modes = port.modes
    reg.an_disable_cap = 1
    reg.an_disable_admin = port.an_disabled
    reg.eth_proto_capability, reg.ext_eth_proto_capability = modes.masks
    reg.eth_proto_admin, reg.ext_eth_proto_admin = modes.chosen
    is_up = vport.is_up
    reg.eth_proto_oper, reg.ext_eth_proto_oper = modes.in_use if is_up else (0, 0)
    reg.data_rate_oper = port.speed // _MBPS_PER_RATE if is_up else 0
    reg.connector_type = ConnectorType.DA
    reg.an_status = AnStatus.UNAVAILABLE
    reg.eth_proto_lp_advertise = 0
    if is_up and not port.an_disabled:
        legacy, extended = modes.masks
        reg.an_status = AnStatus.COMPLETE
        reg.eth_proto_lp_advertise = extended or legacy


def _set_ptys(vport: NicVport, reg: layout.ptys_reg) -> None:
    """Set the allowed modes; an empty mask means that the port chooses.

    Refuse another proto_mask, or a mode that the port does not have, with BAD_PARAM_ERR.
    """
    port = vport.port
    if reg.proto_mask != ProtoMask.EN:
        raise BadParamError("proto_mask is for another link layer", f"{reg.proto_mask}")
    legacy, extended = reg.eth_proto_admin, reg.ext_eth_proto_admin
    try:
        port.modes.choose(legacy, extended)
    except ValueError:
        raise BadParamError(
            "link mode not supported by the port", f"{legacy:#x}, extended {extended:#x}"
        ) from None
    port.an_disabled = bool(reg.an_disable_admin)
    _ptys(vport, reg)


def _pplm(vport: NicVport, reg: port_regs.pplm_reg) -> None:
    """Fill in error correction: supported codes of each mode, the chosen one, the active one.

    The active one is 0 while the link is down.
    """
    port = vport.port
    for name, link in fec.of_modes(port.modes.able).items():
        setattr(reg, f"fec_override_cap_{name}", link.capable)
        setattr(reg, f"fec_override_admin_{name}", port.fec_admin.get(name, 0))
    reg.fec_mode_active = fec.in_use(port.modes.mode, port.fec_admin) if vport.is_up else 0


def _set_pplm(vport: NicVport, reg: port_regs.pplm_reg) -> None:
    """Set the code of each supported mode; 0 means that the port chooses.

    Refuse an unsupported code, or two for one mode, with BAD_PARAM_ERR.
    """
    links = fec.of_modes(vport.port.modes.able)
    requested = {name: int(getattr(reg, f"fec_override_admin_{name}")) for name in links}
    for name, code in requested.items():
        if code & ~links[name].capable or code.bit_count() > 1:
            raise BadParamError("no such error correction", f"{code:#x}")
    vport.port.fec_admin = requested
    _pplm(vport, reg)


_REGISTERS: dict[int, AccessRegister[NicVport]] = {
    RegId.PTYS: AccessRegister(layout.ptys_reg, _ptys, _set_ptys, is_shared=True),
    RegId.PPLM: AccessRegister(
        port_regs.pplm_reg, _pplm, _set_pplm, gate="pcam_reg", is_shared=True
    ),
}
REGISTERS = of_part(lambda hca: hca.nic_vport, _REGISTERS)
"""Registers of an Ethernet function."""

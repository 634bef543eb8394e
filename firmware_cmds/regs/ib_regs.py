"""Registers of an InfiniBand port (PRM "Port registers")."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from emu.device.errors import BadParamError
from emu.device.models.model import IbSpeed, Model
from emu.device.port.ib.link_errors import INTEGRITY_ERRORS, OVERRUN_ERRORS
from emu.device.port.ib.port import SETTABLE_CAPS
from firmware_cmds.regs.registers import AccessRegister, of_part
from layouts.enums.regs import CountersGroup, RegId
from layouts.regs import port_counters
from layouts.regs import reg as layout

if TYPE_CHECKING:
    from emu.device.port.ib.port import IbPort
    from emu.device.state.hca import Hca

IB_PROTO_MASK = 1
_FRAME_COUNTERS = frozenset(
    {
        *(CountersGroup.IEEE_802_3, CountersGroup.RFC_2863, CountersGroup.RFC_2819),
        CountersGroup.PER_PRIORITY,
    }
)


def _pcap(port: IbPort, reg: layout.pcap_reg) -> None:
    """Fill in the InfiniBand PortInfo capability mask, in the last of four words."""
    reg.port_capability_mask[3] = port.cap_mask1


def _set_pcap(port: IbPort, reg: layout.pcap_reg) -> None:
    """Set the stack's capability bits, where the port has no ib_virt.

    The driver puts the mask into the first word (core/port.c:mlx5_set_port_caps). The mask includes
    bits that the driver does not own.
    """
    given = reg.port_capability_mask[0]
    port.cap_mask1 = port.cap_mask1 & ~SETTABLE_CAPS | given & SETTABLE_CAPS


def _pmtu(port: IbPort, reg: layout.pmtu_reg) -> None:
    reg.max_mtu = reg.admin_mtu = reg.oper_mtu = port.mtu


def _ptys(hca: Hca, reg: layout.ptys_reg) -> None:
    """Fill in width and speed of the InfiniBand link (mlx5 encoding, one bit each).

    Leave it zero for another proto_mask. The active width and speed are 0 while the link is down.
    """
    if reg.proto_mask != IB_PROTO_MASK:
        return
    port, model = hca.ib, hca.model
    reg.ib_link_width_capability = reg.ib_link_width_admin = model.ib_link_width_oper
    reg.ib_proto_capability = speeds(model)
    reg.ib_proto_admin = port.proto_admin or reg.ib_proto_capability
    if port.is_up:
        reg.ib_link_width_oper, reg.ib_proto_oper = port.width_oper, port.proto_oper


def speeds(model: Model) -> int:
    """Return the adapter's speeds: its own and the slower ones."""
    return sum(speed for speed in IbSpeed if speed <= model.ib_proto_oper)


def _set_ptys(hca: Hca, reg: layout.ptys_reg) -> None:
    """Set the allowed speeds, or allow all; the link uses the fastest.

    iPXE requests SDR while it boots (golan.c: golan_set_link_speed). Refuse another proto_mask, or
    only unsupported speeds, with BAD_PARAM_ERR.
    """
    if reg.proto_mask != IB_PROTO_MASK:
        raise BadParamError("proto_mask is for another link layer", f"{reg.proto_mask}")
    chosen = (reg.ib_proto_admin or ~0) & speeds(hca.model)
    if not chosen:
        raise BadParamError("speed not supported", f"{reg.ib_proto_admin:#x}")
    hca.ib.proto_admin = chosen
    hca.ib.proto_oper = 1 << chosen.bit_length() - 1
    _ptys(hca, reg)


def _pvlc(_: object, reg: layout.pvlc_reg) -> None:
    """Fill in the virtual lanes, as code 4: VL0 to VL7."""
    reg.vl_hw_cap = reg.vl_admin = reg.vl_operational = 4


def _ppcnt(port: IbPort, reg: layout.ppcnt_reg) -> None:
    """Fill in error counters of the link: link downs, and the errors that faults inject.

    ethtool of an IPoIB interface also requests frame counters (core/ipoib/ipoib.c:
    mlx5i_stats_grps), which do not exist. ``clr`` zeroes the errors after the read. Refuse an
    unknown group with BAD_PARAM_ERR.
    """
    failures = port.failures()
    failures.subtract(port.ppcnt_base)
    if reg.grp == CountersGroup.INFINIBAND_PORT:
        counters = bytes(_ib_port_counters(failures))
    elif reg.grp == CountersGroup.PHYSICAL_LAYER:
        downed = failures["link_downed_counter"] & 0xFFFFFFFF
        counters = bytes(port_counters.phys_layer_cntrs.new(link_down_events=downed))
    elif reg.grp in _FRAME_COUNTERS:
        counters = b""
    else:
        raise BadParamError("counter group not supported", f"{reg.grp:#x}")
    reg.counter_set = counters.ljust(len(reg.counter_set), b"\0")
    if reg.clr:
        port.ppcnt_base = port.failures()


def _ib_port_counters(failures: Counter[str]) -> layout.ib_port_cntrs_grp_data_layout:
    """Return the counters, each of which stops at its maximum (IBTA 16.1.3.5)."""
    counters = layout.ib_port_cntrs_grp_data_layout.new()
    for field in layout.ib_port_cntrs_grp_data_layout.fields:
        if field.name in failures:
            setattr(counters, field.name, min(failures[field.name], (1 << field.width) - 1))
    integrity, overrun = (min(failures[name], 0xF) for name in (INTEGRITY_ERRORS, OVERRUN_ERRORS))
    counters.link_overrun_errors = integrity << 4 | overrun
    return counters


_OF_PORT: dict[int, AccessRegister[IbPort]] = {
    RegId.PCAP: AccessRegister(layout.pcap_reg, _pcap, _set_pcap),
    RegId.PMTU: AccessRegister(layout.pmtu_reg, _pmtu),
    RegId.PVLC: AccessRegister(layout.pvlc_reg, _pvlc),
    RegId.PPCNT: AccessRegister(layout.ppcnt_reg, _ppcnt),
}
REGISTERS = {
    **of_part(lambda hca: hca.ib, _OF_PORT),
    RegId.PTYS: AccessRegister(layout.ptys_reg, _ptys, _set_ptys),
}
"""Registers of a function with this link layer."""

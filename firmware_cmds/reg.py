"""ACCESS_REG and the registers behind it (PRM "Access registers").

A register is its layout, a function that fills it for a read and, for the few that can be written,
one that takes the value over. What nobody modelled is refused with BAD_PARAM_ERR and counted for
the end-of-run summary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emu.cmdif.registry import OpenField, command
from emu.device.hca import HcaState
from emu.errors import CmdError
from emu.port.ib.port import SETTABLE_CAPS
from firmware_cmds import components
from layouts import reg as layout
from layouts.component_regs import mcqi_reg, mcqs_reg
from layouts.enums import Op, RegId, Status
from layouts.port_regs import mcam_reg
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.hca import Hca

WRITE, READ = 0, 1
IB_PROTO_MASK = 1
IB_PORT_COUNTERS = 0x20
"""Counter group of PPCNT (device.h: MLX5_INFINIBAND_PORT_COUNTERS_GROUP)."""

Access = Callable[["Hca", Any], None]
"""Fills (read) or takes over (write) a view of the register."""


@dataclass(frozen=True, slots=True)
class Register:
    """One register: its layout and what reading and writing do; None refuses."""

    layout: Prm
    read: Access | None = None
    write: Access | None = None
    gate: str = ""
    """The general capability without which the register is not there."""
    is_open: bool = False
    """Data of any length follow the layout, as many as the output has room for."""


def _pcap(hca: Hca, reg: Any) -> None:
    """InfiniBand PortInfo capability mask, in the last of four words."""
    reg.port_capability_mask[3] = hca.ib.cap_mask1


def _set_pcap(hca: Hca, reg: Any) -> None:
    """Without ib_virt the stack's capability bits come this way.

    The driver puts the mask into the first word (core/port.c:mlx5_set_port_caps), with the bits in
    it that are not its own to set.
    """
    port, given = hca.ib, reg.port_capability_mask[0]
    port.cap_mask1 = port.cap_mask1 & ~SETTABLE_CAPS | given & SETTABLE_CAPS


def _pmtu(hca: Hca, reg: Any) -> None:
    reg.max_mtu = reg.admin_mtu = reg.oper_mtu = hca.ib.mtu


def _ptys(hca: Hca, reg: Any) -> None:
    """Width and speed of the InfiniBand link (mlx5 encoding, one bit each)."""
    if reg.proto_mask != IB_PROTO_MASK:
        return
    port, model = hca.ib, hca.model
    reg.ib_link_width_capability = reg.ib_link_width_admin = model.ib_link_width_oper
    reg.ib_proto_capability = reg.ib_proto_admin = model.ib_proto_oper
    if port.is_up:
        reg.ib_link_width_oper, reg.ib_proto_oper = port.width_oper, port.proto_oper


def _paos(hca: Hca, reg: Any) -> None:
    """Administrative and operational status: 1 up, 2 down."""
    reg.admin_status = 1
    reg.oper_status = 1 if hca.ib.is_up else 2


def _pvlc(hca: Hca, reg: Any) -> None:
    """Virtual lanes, as code 4: VL0 to VL7."""
    reg.vl_hw_cap = reg.vl_admin = reg.vl_operational = 4


def _ppcnt(hca: Hca, reg: Any) -> None:
    """Error counters of the link; the only error there is, is that somebody pulls the cable."""
    if reg.grp != IB_PORT_COUNTERS:
        raise CmdError(Status.BAD_PARAM_ERR, "counter group not supported", f"{reg.grp:#x}")
    downed = hca.ib.link_downed - hca.ib.ppcnt_base
    counters = layout.ib_port_cntrs_grp_data_layout.new(link_downed_counter=min(downed, 0xFF))
    reg.counter_set = bytes(counters).ljust(len(reg.counter_set), b"\0")
    if reg.clr:
        hca.ib.ppcnt_base = hca.ib.link_downed


def _read_node_description(hca: Hca, reg: Any) -> None:
    reg.desc = hca.ib.node_description


def _write_node_description(hca: Hca, reg: Any) -> None:
    hca.ib.node_description = reg.desc


def _host_endianness(hca: Hca, reg: Any) -> None:
    """Physical functions write it at probe; the device speaks big-endian whatever it says."""


REGISTERS: dict[int, Register] = {
    RegId.PCAP: Register(layout.pcap_reg, _pcap, _set_pcap),
    RegId.PMTU: Register(layout.pmtu_reg, _pmtu),
    RegId.PTYS: Register(layout.ptys_reg, _ptys),
    RegId.PAOS: Register(layout.paos_reg, _paos),
    RegId.PVLC: Register(layout.pvlc_reg, _pvlc),
    RegId.PPCNT: Register(layout.ppcnt_reg, _ppcnt),
    RegId.NODE_DESC: Register(
        layout.node_desc_reg, _read_node_description, _write_node_description
    ),
    RegId.HOST_ENDIANNESS: Register(layout.host_endianness_reg, write=_host_endianness),
    RegId.MCAM: Register(mcam_reg, components.mcam, gate="mcam_reg"),
    RegId.MCQS: Register(mcqs_reg, components.mcqs, gate="mcam_reg"),
    RegId.MCQI: Register(mcqi_reg, components.mcqi, gate="mcam_reg", is_open=True),
}

_PORT_REGISTERS = range(0x5000, 0x6000)


def _layout_of(cmd: Any) -> Prm | None:
    register = REGISTERS.get(cmd.register_id)
    return register.layout if register else None


@command(
    Op.ACCESS_REG,
    layout.access_register_in,
    layout.access_register_out,
    needs=HcaState.ENABLED,
    opened=OpenField("register_data", _layout_of),
    privileged=True,
)
def access_register(hca: Hca, cmd: Any, out: Any) -> None:
    """Read or write a register; the output carries the register as it is afterwards."""
    register = REGISTERS.get(cmd.register_id)
    if register is None or (register.gate and not getattr(hca.caps.general, register.gate)):
        hca.missing.registers[cmd.register_id] += 1
        raise CmdError(Status.BAD_PARAM_ERR, "register not supported", f"{cmd.register_id:#x}")
    access = {WRITE: register.write, READ: register.read}.get(cmd.op_mod)
    if access is None:
        raise CmdError(
            Status.BAD_PARAM_ERR, "register does not allow this access", f"op_mod {cmd.op_mod}"
        )
    start, size = layout.access_register_in.size, register.layout.size
    given = cmd.buf[start : start + size]
    if len(given) < size:
        raise CmdError(Status.BAD_INP_LEN_ERR, "register is longer", f"{len(given)} of {size}")
    room = len(out.buf) - layout.access_register_out.size
    if room < size:
        raise CmdError(Status.BAD_OUTP_LEN_ERR, "no room for the register", f"{room} of {size}")
    if register.is_open:
        size = room
    view = register.layout.view(bytearray(given).ljust(size, b"\0"))
    if cmd.register_id in _PORT_REGISTERS and view.local_port > 1:
        raise CmdError(Status.BAD_PARAM_ERR, "no such port", f"{view.local_port}")
    access(hca, view)
    at = layout.access_register_out.size
    out.buf[at : at + size] = view.buf

"""ACCESS_REG and its registers (PRM "Access registers").

A register is its layout, a function that fills it for a read and, if it can be written, one that
applies the value. Registers without a model are refused with BAD_PARAM_ERR and counted for the
end-of-run summary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.device.cmdif.registry import OpenField, command
from emu.device.cmdif.scope import addressed
from emu.device.errors import BadParamError, CmdError
from emu.device.state.hca import HcaState
from firmware_cmds.regs import (
    board_regs,
    clock_regs,
    components,
    eth_regs,
    ib_regs,
    link_info,
    nv_config,
    port_state,
    resource_dump,
)
from firmware_cmds.regs.registers import AccessRegister
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.regs import RegId
from layouts.prm import Prm
from layouts.regs import reg as layout
from layouts.regs.component_regs import mcqi_reg, mcqs_reg, mfrl_reg, mgir_reg
from layouts.regs.nv_regs import mnvda_reg
from layouts.regs.port_regs import mcam_reg

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

WRITE, READ = 0, 1

FIRST_WORD_BYTES = 4
"""Size in bytes of a register's first word, the minimum input: it has the port or another index.

Missing bytes of the input count as zero, and the output is cut to its space; a driver that writes
may leave no space at all. Snabb's driver (apps/mellanox/connectx.lua) reads PAOS with one word and
64 of the 80 bytes of PCAM, and writes 16 of the 32 bytes of PFCC; Linux 6.1 knows 64 of the 144
bytes of MCIA.
"""


def _host_endianness(_: object, reg: layout.host_endianness_reg) -> None:
    """Accept the host's byte order, and change nothing.

    Physical functions write it at probe; the device is always big-endian.
    """


def _read_node_description(hca: Hca, reg: layout.node_desc_reg) -> None:
    """Fill in the node description, which mlx5_ib reads on every link layer."""
    reg.desc = hca.vport.node_description


def _write_node_description(hca: Hca, reg: layout.node_desc_reg) -> None:
    """Set the node description; on InfiniBand report a change to the subnet."""
    before, hca.vport.node_description = hca.vport.node_description, reg.desc
    if before != reg.desc and hca.model.port_type is PortType.IB:
        hca.wire.port_changed(hca)  # the subnet stores it as well


REGISTERS: dict[int, AccessRegister[Any]] = {
    RegId.HOST_ENDIANNESS: AccessRegister(layout.host_endianness_reg, write=_host_endianness),
    RegId.NODE_DESC: AccessRegister(
        layout.node_desc_reg, _read_node_description, _write_node_description
    ),
    RegId.MCAM: AccessRegister(mcam_reg, components.mcam, gate="mcam_reg"),
    RegId.MCQS: AccessRegister(mcqs_reg, components.mcqs, gate="mcam_reg"),
    RegId.MFRL: AccessRegister(mfrl_reg, components.mfrl, gate="mcam_reg"),
    RegId.MGIR: AccessRegister(mgir_reg, components.mgir),
    RegId.MNVDA: AccessRegister(mnvda_reg, nv_config.mnvda, gate="mcam_reg"),
    RegId.MCQI: AccessRegister(mcqi_reg, components.mcqi, gate="mcam_reg", is_open=True),
    **board_regs.REGISTERS,
    **clock_regs.REGISTERS,
    **link_info.REGISTERS,
    **port_state.REGISTERS,
    **resource_dump.REGISTERS,
}
"""Registers of every function; those of the port depend on its link layer."""

_PORT_REGISTERS = {PortType.IB: ib_regs.REGISTERS, PortType.ETH: eth_regs.REGISTERS}


def _find(port_type: PortType, register_id: int) -> AccessRegister[Any] | None:
    """Return the register of a function with this port; None if there is none."""
    return REGISTERS.get(register_id) or _PORT_REGISTERS[port_type].get(register_id)


def _layout_of(cmd: layout.access_register_in) -> type[Prm] | None:
    """Return the layout of the command's register; None for a register without a model.

    The layout is equal on all link layers.
    """
    for registers in (REGISTERS, *_PORT_REGISTERS.values()):
        if cmd.register_id in registers:
            return registers[cmd.register_id].layout
    return None


@command(
    Op.ACCESS_REG,
    needs=HcaState.ENABLED,
    opened=OpenField("register_data", _layout_of),
    privileged=True,
)
def access_register(
    hca: Hca, cmd: layout.access_register_in, out: layout.access_register_out
) -> None:
    """Read or write a register; the output holds the register after the access.

    op_mod is 0 to write, 1 to read. A write of a function behind the manager's switch leaves what
    all functions share unchanged. Refuse with BAD_PARAM_ERR an access that the register does not
    allow. A register without a model or capability is counted and refused likewise. Fewer than 4
    bytes get BAD_INP_LEN_ERR or BAD_OUTP_LEN_ERR.
    """
    register = _find(hca.model.port_type, cmd.register_id)
    if register is None or (register.gate and not getattr(hca.caps.general, register.gate)):
        hca.counts.unhandled.registers[cmd.register_id] += 1
        raise BadParamError("register not supported", f"{cmd.register_id:#x}")
    write = register.write
    if register.is_shared and not hca.vhca.is_manager:
        write = register.read
    access = {WRITE: write, READ: register.read}.get(cmd.op_mod)
    if access is None:
        raise BadParamError("register does not allow this access", f"op_mod {cmd.op_mod}")
    start, size = layout.access_register_in.size, register.layout.size
    given = cmd.buf[start : start + size]
    room = len(out.buf) - layout.access_register_out.size
    if len(given) < FIRST_WORD_BYTES:
        raise CmdError(
            Status.BAD_INP_LEN_ERR, "input is too short for the register", f"{len(given)} of {size}"
        )
    if cmd.op_mod == READ and room < FIRST_WORD_BYTES:
        raise CmdError(
            Status.BAD_OUTP_LEN_ERR, "output is too short for the register", f"{room} of {size}"
        )
    if register.is_open:
        size = max(size, room)
    view = register.layout.view(bytearray(given).ljust(size, b"\0"))
    access(register.part(addressed(hca, view, register.scope)), view)
    at = layout.access_register_out.size
    size = min(size, room)
    out.buf[at : at + size] = view.buf[:size]

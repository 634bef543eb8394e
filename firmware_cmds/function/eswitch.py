"""Embedded switch (E-Switch) apart from its flow tables: vPort contexts and the L2 table.

Source: PRM "E-Switch"; core/eswitch.c, core/eswitch_offloads.c, core/lib/mpfs.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.icm_addresses import IcmKind, vport_address
from emu.device.port.eth.traffic import MAC_BYTES
from emu.device.state.eswitch import Eswitch, EswVport, L2Entry
from firmware_cmds.options import first_set
from layouts.enums.cmd import Op, Status
from layouts.function import esw_vport as layout
from layouts.steering import l2_table

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.cmd import VportIn

_NOT_BUILT = (
    "vport_cvlan_insert", "vport_svlan_insert", "vport_cvlan_strip", "vport_svlan_strip",
)  # fmt: skip
"""Fields whose features have capability bits, none of which is set."""


def eswitch_of(tables: ObjectTables) -> Eswitch:
    """Return the switch that the sender manages; raise BAD_OP_ERR if it manages none."""
    if tables.eswitch is None:
        raise CmdError(Status.BAD_OP_ERR, "function has no embedded switch to manage")
    return tables.eswitch


def _vport(hca: Hca, cmd: VportIn) -> EswVport:
    """Return the vPort that a command names; by default the sender's own.

    Raises BAD_PARAM_ERR for a vPort that the sender does not see, BAD_OP_ERR if the sender manages
    no switch.
    """
    number, is_named = cmd.vport_number, cmd.other_vport or cmd.vport_number
    if is_named and (hca.eswitch is None or not hca.vhca.sees(number)):
        raise BadParamError("no such vport", f"{number}")
    return eswitch_of(hca).vport(number)


@command(Op.QUERY_ESW_VPORT_CONTEXT, of_vports=True)
def query_esw_vport_context(
    hca: Hca, cmd: layout.query_esw_vport_context_in, out: layout.query_esw_vport_context_out
) -> None:
    """Return the settings of the switch for a vPort.

    Processes use it to get the ICM address of the vPort for steering entries (rdma-core's
    mlx5dv_dr). An unknown vPort gets BAD_PARAM_ERR, a sender without a switch BAD_OP_ERR.
    """
    context = out.esw_vport_context
    context.fdb_to_vport_reg_c_id = _vport(hca, cmd).reg_c_id
    if hca.icm is not None:
        number = cmd.vport_number
        port = hca.adapter.number
        context.sw_steering_vport_icm_address_rx = vport_address(IcmKind.VPORT_RX, port, number)
        context.sw_steering_vport_icm_address_tx = vport_address(IcmKind.VPORT_TX, port, number)


@command(Op.MODIFY_ESW_VPORT_CONTEXT, privileged=True, of_vports=True)
def modify_esw_vport_context(
    hca: Hca, cmd: layout.modify_esw_vport_context_in, out: layout.modify_esw_vport_context_out
) -> None:
    """Choose the registers C that a vPort receives with its packets.

    Refuse with BAD_PARAM_ERR the VLAN fields, unknown registers and an unknown vPort. A sender
    without a switch gets BAD_OP_ERR.
    """
    vport, chosen, context = _vport(hca, cmd), cmd.field_select, cmd.esw_vport_context
    if name := first_set(chosen, _NOT_BUILT):
        raise BadParamError("vPort field is not settable", name)
    if chosen.fdb_to_vport_reg_c_id:
        known = hca.caps.eswitch_tables.fdb_to_vport_reg_c_id
        if context.fdb_to_vport_reg_c_id & ~known:
            raise BadParamError(
                "registers that vPorts cannot receive", f"{context.fdb_to_vport_reg_c_id:#x}"
            )
        vport.reg_c_id = context.fdb_to_vport_reg_c_id


@command(Op.QUERY_ESW_FUNCTIONS)
def query_esw_functions(
    hca: Hca, cmd: layout.query_esw_functions_in, out: layout.query_esw_functions_out
) -> None:
    """Return how many virtual functions the sender has on the bus, and how many it can have.

    Refuse with BAD_OP_ERR a sender that manages no switch.
    """
    eswitch_of(hca)
    vhcas, host = hca.adapter.virtual_functions(), out.host_params_context
    host.host_num_of_vfs = sum(vhca.vf_enabled for vhca in vhcas)
    host.host_total_vfs = len(vhcas)


def _index(tables: ObjectTables, cmd: l2_table.L2TableEntryIn) -> tuple[Eswitch, int]:
    """Return the switch that the sender manages, and the index in its L2 table.

    Raises BAD_OP_ERR without a switch, BAD_PARAM_ERR for an index beyond log_max_l2_table.
    """
    eswitch, index = eswitch_of(tables), cmd.table_index
    if index >= 1 << tables.caps.general.log_max_l2_table:
        raise BadParamError("index beyond log_max_l2_table", f"{index}")
    return eswitch, index


@command(Op.SET_L2_TABLE_ENTRY, privileged=True)
def set_l2_table_entry(
    tables: ObjectTables, cmd: l2_table.set_l2_table_entry_in, out: l2_table.set_l2_table_entry_out
) -> None:
    """Direct frames to a unicast address to this function, one of several behind a port.

    An entry that exists is replaced. Refuse an index beyond log_max_l2_table or silent_mode with
    BAD_PARAM_ERR, and a sender without a switch with BAD_OP_ERR.
    """
    eswitch, index = _index(tables, cmd)
    if cmd.silent_mode_valid:
        raise BadParamError("silent_mode is not supported")
    mac = cmd.mac_address.mac_addr_47_32 << 32 | cmd.mac_address.mac_addr_31_0
    vlan = cmd.vlan if cmd.vlan_valid else None
    eswitch.l2_table[index] = L2Entry(mac.to_bytes(MAC_BYTES, "big"), vlan)


def _entry(tables: ObjectTables, cmd: l2_table.L2TableEntryIn) -> tuple[Eswitch, int, L2Entry]:
    """Return switch, index and entry; raise as :func:`_index`, and BAD_RES_ERR for an empty one."""
    eswitch, index = _index(tables, cmd)
    entry = eswitch.l2_table.get(index)
    if entry is None:
        raise CmdError(Status.BAD_RES_ERR, "no entry of the L2 table at this index", f"{index}")
    return eswitch, index, entry


@command(Op.QUERY_L2_TABLE_ENTRY, privileged=True)
def query_l2_table_entry(
    tables: ObjectTables,
    cmd: l2_table.query_l2_table_entry_in,
    out: l2_table.query_l2_table_entry_out,
) -> None:
    """Return an entry of the L2 table unchanged.

    Refuse an empty entry with BAD_RES_ERR, an index beyond the table with BAD_PARAM_ERR.
    """
    _, _, entry = _entry(tables, cmd)
    mac = int.from_bytes(entry.mac, "big")
    out.mac_address.mac_addr_47_32, out.mac_address.mac_addr_31_0 = mac >> 32, mac & 0xFFFFFFFF
    if entry.vlan is not None:
        out.vlan_valid, out.vlan = 1, entry.vlan


@command(Op.DELETE_L2_TABLE_ENTRY, privileged=True)
def delete_l2_table_entry(
    tables: ObjectTables,
    cmd: l2_table.delete_l2_table_entry_in,
    out: l2_table.delete_l2_table_entry_out,
) -> None:
    """Remove an entry of the L2 table.

    Refuse an empty entry with BAD_RES_ERR, an index beyond the table with BAD_PARAM_ERR.
    """
    eswitch, index, _ = _entry(tables, cmd)
    del eswitch.l2_table[index]

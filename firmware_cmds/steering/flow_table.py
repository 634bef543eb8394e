"""Flow tables and their root (PRM "Flow steering"; core/fs_cmd.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.esw import sharing
from emu.device.engine.eth.steering import changes as steering
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.flow.domain import FlowDomain
from emu.device.objects.eth.flow.table import ACLS, SNIFFING, SWITCHING, FlowTable, Miss
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address, parts
from emu.device.objects.object import DRIVER_UID
from emu.device.state.eswitch import ForeignRoot
from firmware_cmds.options import first_set
from firmware_cmds.steering import software
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType, ModifyFlowTable, TableMissAction
from layouts.steering import flow_table as layout

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.cmd import VportIn

_SET, _DISCONNECT = 0, 1
"""Values of op_mod of SET_FLOW_TABLE_ROOT (core/fs_cmd.c: mlx5_cmd_update_root_ft)."""

_NORMAL, _LAG_DEMUX = 0, 1
"""Values of op_mod of CREATE_FLOW_TABLE (core/fs_cmd.c: mlx5_cmd_create_flow_table)."""

_NEWER = "flow_table_context.sw_owner_icm_root_1"
"""First field that a driver without software steering may leave out (OpenBSD's if_mcx.c)."""

_NOT_BUILT = ("rtc_valid",)
"""Fields of flow_table_context whose features have capability bits, none of which is set."""

_OPTIONAL = {
    "reformat_en": "reformat", "decap_en": "decap", "termination_table": "termination_table",
}  # fmt: skip
"""Fields that need a property of the table, by property."""


def check_type(hca: Hca, kind: int, vport: int = 0, other_vport: int = 0) -> None:
    """Refuse flow tables of a type (FlowTableType) that the caller cannot use, by BAD_PARAM_ERR.

    ``vport`` and ``other_vport`` are those of a command's head: only ACLs are of another vPort,
    which must exist. The function needs ``ft_support`` for the type. Only the driver may use the
    tables of a switch and of sniffers (ib/fs.c: mlx5_ib_create_flow requires CAP_NET_RAW of a
    process). With software steering, a process may use the FDB.
    """
    if (vport or other_vport) and (kind not in ACLS or not hca.vhca.sees(vport)):
        raise BadParamError("no such vport", f"{vport}")
    if hca.flow_domain(kind, vport) is None:
        raise BadParamError("no flow tables of this type", f"{kind}")
    is_for_all = kind == FlowTableType.FDB and hca.icm is not None  # rdma-core's mlx5dv_dr
    is_drivers = kind in SWITCHING or kind == FlowTableType.PORT_SEL
    if is_drivers and hca.caller.uid != DRIVER_UID and not is_for_all:
        raise BadParamError("only the driver may use the switch's flow tables")
    if kind in SNIFFING and hca.caller.uid != DRIVER_UID:
        raise BadParamError("only the driver may use flow tables of sniffers")


def domain_of(tables: ObjectTables, table: FlowTable) -> FlowDomain:
    """Return the steering domain of a table."""
    domain = tables.flow_domain(table.table_type, table.vport)
    assert domain is not None
    return domain


def table_of(hca: Hca, head: VportIn, kind: int, number: int) -> FlowTable:
    """Return the flow table that a command names by type, number and the vPort of its head.

    Raises as :func:`check_type`; BAD_RES_ERR for an unknown number, another type or another vPort.
    """
    check_type(hca, kind, head.vport_number, head.other_vport)
    table = _of_type(hca.flow_tables, kind, number)
    if table.vport != head.vport_number:
        raise CmdError(Status.BAD_RES_ERR, "flow table belongs to another vPort", f"{table!r}")
    return table


def queried_table(hca: Hca, kind: int, number: int) -> FlowTable:
    """Return the flow table that a query names, which names no vPort.

    Raises as :func:`check_type`; BAD_RES_ERR for an unknown number or another type.
    """
    check_type(hca, kind)
    return _of_type(hca.flow_tables, kind, number)


def _of_type(tables: Table[FlowTable], table_type: int, number: int) -> FlowTable:
    """Return the table; raise BAD_RES_ERR for an unknown number, or a table of another type."""
    table = tables.need(number)
    if table.table_type != table_type:
        raise CmdError(Status.BAD_RES_ERR, "flow table has another type", f"{table!r}")
    return table


def _miss(
    tables: ObjectTables,
    cmd: layout.create_flow_table_in | layout.modify_flow_table_in,
    level: int,
    vport: int,
) -> FlowTable | Miss:
    """Return the next table of packets that match no entry of a table of this level.

    A Miss instead means the default or, in RDMA_RX only, the next domain. Raises BAD_RES_ERR for an
    unknown table or another vPort's, BAD_PARAM_ERR for a level that is not higher or an unknown
    action.
    """
    ctx = cmd.flow_table_context
    if ctx.table_miss_action == TableMissAction.DEF:
        return Miss.DEFAULT
    if ctx.table_miss_action == TableMissAction.FWD:
        table = _of_type(tables.flow_tables, cmd.table_type, ctx.table_miss_id)
        if table.vport != vport:
            raise CmdError(Status.BAD_RES_ERR, "flow table belongs to another vPort", f"{table!r}")
        steering.check_miss(level, table)
        return table
    is_rdma_rx = cmd.table_type == FlowTableType.RDMA_RX  # table_miss_action_domain
    if ctx.table_miss_action == TableMissAction.SWITCH_DOMAIN and is_rdma_rx:
        return Miss.SWITCH_DOMAIN
    raise BadParamError("table_miss_action not supported", f"{ctx.table_miss_action}")


def _lag_next(
    tables: ObjectTables, cmd: layout.create_flow_table_in | layout.modify_flow_table_in, level: int
) -> FlowTable | Miss:
    """Return the next table of the master's own port, from a LAG's demux table.

    Return Miss.DEFAULT for number 0. Raises BAD_RES_ERR for an unknown table, BAD_PARAM_ERR for a
    level that is not higher.
    """
    number = cmd.flow_table_context.lag_master_next_table_id
    if not number:
        return Miss.DEFAULT
    table = _of_type(tables.flow_tables, cmd.table_type, number)
    steering.check_miss(level, table)
    return table


@command(Op.CREATE_FLOW_TABLE, newer=_NEWER, of_vports=True)
def create_flow_table(
    hca: Hca, cmd: layout.create_flow_table_in, out: layout.create_flow_table_out
) -> None:
    """Create a table for groups and entries; an empty one costs no memory.

    From a LAG's demux table (op_mod 1), packets of the master's own port are forwarded to its next
    table (hw/main.c: mlx5_eth_lag_init).

    Refuse an unknown type, option, op_mod or miss action with BAD_PARAM_ERR, a log_size above
    log_max_ft_size with LIM_ERR. The level may be above max_ft_level: the driver adds up the levels
    of all its priorities (core/fs_core.c: set_prio_attrs).
    """
    vport = cmd.vport_number
    check_type(hca, cmd.table_type, vport, cmd.other_vport)
    ctx = cmd.flow_table_context.copy()
    software.check_owner(hca, cmd.table_type, ctx)
    is_demux = cmd.op_mod == _LAG_DEMUX and cmd.table_type == FlowTableType.NIC_RX
    if cmd.op_mod != _NORMAL and not (is_demux and hca.caps.general.lag_master):
        raise BadParamError("op_mod not supported", f"{cmd.op_mod}")
    table_type = FlowTableType(cmd.table_type)
    properties = hca.caps.flow_properties(table_type)
    missing = [option for option, name in _OPTIONAL.items() if not getattr(properties, name)]
    if name := first_set(ctx, (*_NOT_BUILT, *missing)):
        raise BadParamError("flow table option not supported", name)
    if ctx.log_size > properties.log_max_ft_size:
        raise CmdError(Status.LIM_ERR, "log_size above log_max_ft_size", f"{ctx.log_size}")
    miss = _lag_next(hca, cmd, ctx.level) if is_demux else _miss(hca, cmd, ctx.level, vport)
    table = FlowTable(ctx, miss, table_type, vport, is_demux)
    out.table_id = hca.flow_tables.add(table)
    if ctx.sw_owner:
        software.take_ownership(hca, table)
        domain_of(hca, table).software = table.software
    elif hca.icm is not None:
        out.assign(parts(icm_address(IcmKind.FLOW_TABLE, table.handle)))
    domain_of(hca, table).demuxes += is_demux


@command(Op.MODIFY_FLOW_TABLE, newer=_NEWER, of_vports=True)
def modify_flow_table(
    hca: Hca, cmd: layout.modify_flow_table_in, out: layout.modify_flow_table_out
) -> None:
    """Change the destination of packets that match no entry of the table.

    The field is the next table of a LAG for a demux table, else the miss. Refuse another selection
    with BAD_PARAM_ERR, an unknown table with BAD_RES_ERR. Cached decisions are dropped.
    """
    table = table_of(hca, cmd, cmd.table_type, cmd.table_id)
    selected = (
        ModifyFlowTable.LAG_NEXT_TABLE_ID if table.is_demux else ModifyFlowTable.MISS_TABLE_ID
    )
    if cmd.modify_field_select != selected:
        raise BadParamError("flow table field cannot be modified", f"{cmd.modify_field_select:#x}")
    given = cmd.flow_table_context
    if table.is_demux:
        miss = _lag_next(hca, cmd, table.level)
    else:
        miss = _miss(hca, cmd, table.level, table.vport)

    def apply() -> None:
        table.miss = miss
        if table.is_demux:
            table.ctx.lag_master_next_table_id = given.lag_master_next_table_id
            return
        table.ctx.table_miss_action = given.table_miss_action
        table.ctx.table_miss_id = given.table_miss_id

    hca.flow_tables.change(table, apply)
    domain_of(hca, table).flush()


@command(Op.QUERY_FLOW_TABLE)
def query_flow_table(
    hca: Hca, cmd: layout.query_flow_table_in, out: layout.query_flow_table_out
) -> None:
    """Return the current context, with the table's ICM addresses for steering entries.

    Refuse with BAD_RES_ERR an unknown number, or a table of another type.
    """
    table = queried_table(hca, cmd.table_type, cmd.table_id)
    out.flow_table_context = bytes(table.ctx)
    if hca.icm is not None and table.roots is None:
        address = icm_address(IcmKind.FLOW_TABLE, table.handle)
        out.flow_table_context.sw_owner_icm_root_0 = address
        out.flow_table_context.sw_owner_icm_root_1 = address


@command(Op.DESTROY_FLOW_TABLE, of_vports=True)
def destroy_flow_table(
    hca: Hca, cmd: layout.destroy_flow_table_in, out: layout.destroy_flow_table_out
) -> None:
    """Destroy the table; refused while it has groups or is a destination. A root may be destroyed.

    The driver's last table is the root until its end (core/fs_core.c: update_root_ft_destroy). A
    destroyed root leaves its type without one, also on other switches that use it. The refusal is
    BAD_RES_STATE_ERR; an unknown table gets BAD_RES_ERR.
    """
    table = table_of(hca, cmd, cmd.table_type, cmd.table_id)
    domain = domain_of(hca, table)
    hca.flow_tables.remove(table.handle)
    domain.demuxes -= table.is_demux
    if domain.root is table:
        steering.set_root(domain, None)
        hca.note_sniffers()
        if hca.eswitch is not None and domain is hca.eswitch.fdb:
            hca.switch.tables_changed()
    if table.table_type is FlowTableType.FDB:
        sharing.detach_slaves(hca.vhca, table)
    steering.forget_underlays(domain, table)


@command(Op.SET_FLOW_TABLE_ROOT, privileged=True, of_vports=True)
def set_flow_table_root(
    hca: Hca, cmd: layout.set_flow_table_root_in, out: layout.set_flow_table_root_out
) -> None:
    """Set the root table of a type, or of an underlay queue pair.

    Without a root, received packets are dropped. op_mod 0 sets, 1 removes the root; another one
    gets BAD_PARAM_ERR. An unknown table or QP gets BAD_RES_ERR. A table of another switch's FDB is
    possible with root_ft_on_other_esw.
    """
    check_type(hca, cmd.table_type, cmd.vport_number, cmd.other_vport)
    domain = hca.flow_domain(cmd.table_type, cmd.vport_number)
    assert domain is not None
    if cmd.op_mod not in (_SET, _DISCONNECT):
        raise BadParamError("op_mod not supported", f"{cmd.op_mod}")
    is_own = cmd.table_eswitch_owner_vhca_id == hca.vhca.number
    is_own &= cmd.table_type == FlowTableType.FDB
    if cmd.table_eswitch_owner_vhca_id_valid and not is_own:
        _set_foreign_root(hca, cmd)
        return
    underlay = _underlay(hca, cmd) if cmd.underlay_qpn else None
    table = table_of(hca, cmd, cmd.table_type, cmd.table_id) if cmd.op_mod == _SET else None
    if underlay is None:
        _set_root(hca, domain, table)
    else:
        steering.set_underlay(domain, underlay.handle, table)


def _set_root(hca: Hca, domain: FlowDomain, table: FlowTable | None) -> None:
    """Set the root of a domain; functions are notified when the FDB gets or loses a root.

    None removes the root. An FDB's root on another switch is replaced.
    """
    is_fdb = hca.eswitch is not None and domain is hca.eswitch.fdb
    had_root = domain.root is not None
    steering.set_root(domain, table)
    hca.note_sniffers()
    if is_fdb:
        assert hca.eswitch is not None
        had_root |= hca.eswitch.foreign_root is not None
        hca.eswitch.foreign_root = None
        if had_root != (table is not None):
            hca.switch.tables_changed()


def _set_foreign_root(hca: Hca, cmd: layout.set_flow_table_root_in) -> None:
    """Set the FDB of another switch of the board as the root of the sender's switch.

    The owning function may still change and destroy the table; its destruction removes the root
    (core/eswitch_offloads.c: esw_set_slave_root_fdb).

    Raises BAD_PARAM_ERR without the capability, for an underlay or a removal, and for an unknown
    switch. Raises BAD_RES_ERR unless the number is an FDB table of that switch's driver.
    """
    number = int(cmd.table_eswitch_owner_vhca_id)
    can_share = cmd.table_type == FlowTableType.FDB and hca.caps.eswitch.root_ft_on_other_esw
    if not can_share or cmd.op_mod != _SET or cmd.underlay_qpn:
        raise BadParamError("root must be a table of the sender, or another switch's FDB")
    adapter = hca.adapter.board.managed_by(number)
    owner = adapter.manager.node if adapter is not None else None
    if owner is None or owner.eswitch is None or owner.health.has_failed:
        raise BadParamError("no such switch on the board", f"{number:#x}")
    table = owner.flow_tables.get(cmd.table_id)
    if table is None or table.uid != DRIVER_UID or table.table_type != FlowTableType.FDB:
        raise CmdError(Status.BAD_RES_ERR, "no such flow table", f"{cmd.table_id:#x}")
    assert hca.eswitch is not None
    had_root = hca.eswitch.decides
    steering.set_root(hca.eswitch.fdb, None)
    hca.eswitch.foreign_root = ForeignRoot(number, owner.eswitch.fdb, table)
    if not had_root:
        hca.switch.tables_changed()


def _underlay(tables: ObjectTables, cmd: layout.set_flow_table_root_in) -> Qp:
    """Return the queue pair whose packets the command is about (core/ipoib/ipoib.c: mlx5i_open).

    Raises BAD_RES_ERR for an unknown number, BAD_PARAM_ERR for a queue pair that is no underlay.
    """
    qp = tables.qps.need(cmd.underlay_qpn)
    if qp.steer is None:
        raise BadParamError("queue pair is not an underlay", f"{qp!r}")
    return qp

"""Flow tables and their root (PRM "Flow steering"; core/fs_cmd.c)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from emu.device.cmdif.registry import command
from emu.device.engine.eth.steering import domain as steering
from emu.device.errors import CmdError
from emu.device.objects.eth.flow import FlowDomain, FlowTable, Miss
from firmware_cmds.options import first_set
from layouts.enums import Op, Status
from layouts.eth_enums import FlowTableType, ModifyFlowTable, TableMissAction
from layouts.steering import flow_table as layout

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca

_SET, _DISCONNECT = 0, 1
"""op_mod of SET_FLOW_TABLE_ROOT (core/fs_cmd.c: mlx5_cmd_update_root_ft)."""

_NOT_BUILT = ("reformat_en", "decap_en", "sw_owner", "termination_table", "rtc_valid")
"""Fields of flow_table_context whose features have capability bits, none of which is set."""


class NamesType(Protocol):
    """A command about flow tables of a type (FlowTableType)."""

    table_type: int


class NamesTable(NamesType, Protocol):
    """A command about a flow table."""

    table_id: int


def domain_of(domains: Mapping[int, FlowDomain], cmd: NamesType) -> FlowDomain:
    """The flow tables that a command is about.

    Raises BAD_PARAM_ERR for types without ``ft_support``.
    """
    domain = domains.get(cmd.table_type)
    if domain is None:
        raise CmdError(Status.BAD_PARAM_ERR, "no flow tables of this type", f"{cmd.table_type}")
    return domain


def table_of(tables: Table[FlowTable], cmd: NamesTable) -> FlowTable:
    """The flow table that a command names by its type and number."""
    return _of_type(tables, cmd.table_type, cmd.table_id)


def _of_type(tables: Table[FlowTable], table_type: int, number: int) -> FlowTable:
    table = tables.need(number)
    if table.table_type != table_type:
        raise CmdError(Status.BAD_RES_ERR, "flow table is of another type", f"{table!r}")
    return table


def _miss(
    tables: Table[FlowTable], cmd: layout.CreateFlowTableIn | layout.ModifyFlowTableIn, level: int
) -> FlowTable | Miss:
    """Where packets of a table of this level go that match no entry."""
    ctx = cmd.flow_table_context
    if ctx.table_miss_action == TableMissAction.DEF:
        return Miss.DEFAULT
    if ctx.table_miss_action == TableMissAction.FWD:
        table = _of_type(tables, cmd.table_type, ctx.table_miss_id)
        steering.check_miss(level, table)
        return table
    is_rdma_rx = cmd.table_type == FlowTableType.RDMA_RX  # table_miss_action_domain
    if ctx.table_miss_action == TableMissAction.SWITCH_DOMAIN and is_rdma_rx:
        return Miss.SWITCH_DOMAIN
    raise CmdError(
        Status.BAD_PARAM_ERR, "table_miss_action not supported", f"{ctx.table_miss_action}"
    )


@command(Op.CREATE_FLOW_TABLE, layout.create_flow_table_in, layout.create_flow_table_out)
def create_flow_table(
    hca: Hca, cmd: layout.CreateFlowTableIn, out: layout.CreateFlowTableOut
) -> None:
    """Make a table for groups and entries. An empty one costs nothing.

    The level may be above max_ft_level: the driver adds up the levels of all its priorities, and
    its last tables get the highest ones (core/fs_core.c: set_prio_attrs).
    """
    domain_of(hca.flow_domains, cmd)
    ctx = layout.flow_table_context.view(bytearray(bytes(cmd.flow_table_context)))
    if cmd.op_mod:
        raise CmdError(Status.BAD_PARAM_ERR, "op_mod not supported", f"{cmd.op_mod}")
    if name := first_set(ctx, _NOT_BUILT):
        raise CmdError(Status.BAD_PARAM_ERR, "flow table option not supported", name)
    most = hca.caps.flow_table.flow_table_properties_nic_receive.log_max_ft_size
    if ctx.log_size > most:
        raise CmdError(Status.LIM_ERR, "log_size above log_max_ft_size", f"{ctx.log_size}")
    miss = _miss(hca.flow_tables, cmd, ctx.level)
    table_type = FlowTableType(cmd.table_type)
    out.table_id = hca.flow_tables.add(FlowTable(ctx, miss, table_type))


@command(Op.MODIFY_FLOW_TABLE, layout.modify_flow_table_in, layout.modify_flow_table_out)
def modify_flow_table(
    hca: Hca, cmd: layout.ModifyFlowTableIn, out: layout.ModifyFlowTableOut
) -> None:
    """Change where packets go that no entry of the table matches."""
    domain, table = domain_of(hca.flow_domains, cmd), table_of(hca.flow_tables, cmd)
    if cmd.modify_field_select != ModifyFlowTable.MISS_TABLE_ID:
        raise CmdError(
            Status.BAD_PARAM_ERR, "flow table field cannot be modified",
            f"{cmd.modify_field_select:#x}",
        )  # fmt: skip
    given, miss = cmd.flow_table_context, _miss(hca.flow_tables, cmd, table.level)

    def apply() -> None:
        table.miss = miss
        table.ctx.table_miss_action = given.table_miss_action
        table.ctx.table_miss_id = given.table_miss_id

    hca.flow_tables.change(table, apply)
    domain.flush()


@command(Op.QUERY_FLOW_TABLE, layout.query_flow_table_in, layout.query_flow_table_out)
def query_flow_table(hca: Hca, cmd: layout.QueryFlowTableIn, out: layout.QueryFlowTableOut) -> None:
    """Return the context of now."""
    domain_of(hca.flow_domains, cmd)
    out.flow_table_context = bytes(table_of(hca.flow_tables, cmd).ctx)


@command(Op.DESTROY_FLOW_TABLE, layout.destroy_flow_table_in, layout.destroy_flow_table_out)
def destroy_flow_table(
    hca: Hca, cmd: layout.DestroyFlowTableIn, out: layout.DestroyFlowTableOut
) -> None:
    """Destroy the table; refused while it has groups or packets are sent to it. The root may go.

    The driver's last table is the root until it goes (core/fs_core.c: update_root_ft_destroy).
    """
    domain, table = domain_of(hca.flow_domains, cmd), table_of(hca.flow_tables, cmd)
    hca.flow_tables.remove(table.handle)
    if domain.root is table:
        steering.set_root(domain, None)


@command(
    Op.SET_FLOW_TABLE_ROOT, layout.set_flow_table_root_in, layout.set_flow_table_root_out,
    privileged=True,
)  # fmt: skip
def set_flow_table_root(
    hca: Hca, cmd: layout.SetFlowTableRootIn, out: layout.SetFlowTableRootOut
) -> None:
    """Choose the table where packets begin; without one, received packets are dropped."""
    domain = domain_of(hca.flow_domains, cmd)
    if cmd.underlay_qpn or cmd.table_eswitch_owner_vhca_id_valid:
        raise CmdError(Status.BAD_PARAM_ERR, "root of another function's flow tables")
    if cmd.op_mod == _SET:
        steering.set_root(domain, table_of(hca.flow_tables, cmd))
    elif cmd.op_mod == _DISCONNECT:
        steering.set_root(domain, None)
    else:
        raise CmdError(Status.BAD_PARAM_ERR, "op_mod not supported", f"{cmd.op_mod}")

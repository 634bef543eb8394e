"""Flow table entries (FTE): match values and actions.

Source: PRM "Flow steering"; core/fs_cmd.c: mlx5_cmd_set_fte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.eth.steering import changes as steering
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.flow.table import FlowEntry, FlowTable
from firmware_cmds.steering.flow_group import group_of
from firmware_cmds.steering.flow_table import domain_of, queried_table, table_of
from firmware_cmds.steering.fte_action import LIST_ITEM_BYTES, LONG, Lists, action_of
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowSource, SetFte
from layouts.steering import fte as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_CREATE, _MODIFY = 0, 1
"""Values of op_mod of SET_FLOW_TABLE_ENTRY."""
_CHANGEABLE = SetFte.ACTION | SetFte.FLOW_TAG | SetFte.DESTINATION_LIST | SetFte.FLOW_COUNTERS


def _joined(ctx: layout.flow_context, lists: Lists) -> bytes:
    """Return the context with its lists behind it, as a query answers.

    Set the sizes of both lists in ``ctx``; items grow to the size of a destination.
    """
    ctx.destination_list_size = len(lists.destinations)
    ctx.flow_counter_list_size = len(lists.counters)
    size = LIST_ITEM_BYTES * (LONG if ctx.extended_destination else 1)
    items = (*lists.destinations, *lists.counters)
    return bytes(ctx) + b"".join(item.ljust(size, b"\0") for item in items)


def _entry(table: FlowTable, index: int) -> FlowEntry:
    """Return the entry at this index; raise BAD_RES_ERR if there is none."""
    entry = table.entry_at(index)
    if entry is None:
        raise CmdError(Status.BAD_RES_ERR, "no such flow table entry", f"{table!r} index {index}")
    return entry


@command(Op.SET_FLOW_TABLE_ENTRY, of_vports=True)
def set_flow_table_entry(hca: Hca, cmd: layout.set_fte_in, out: layout.set_fte_out) -> None:
    """Create an entry at an index of a group, or change the actions of an entry.

    op_mod 0 creates, 1 modifies; another one gets BAD_PARAM_ERR, as do actions that are not
    supported. Lists above their capability get LIM_ERR.
    """
    table = table_of(hca, cmd, cmd.table_type, cmd.table_id)
    if cmd.op_mod == _CREATE:
        _create(hca, cmd, table)
    elif cmd.op_mod == _MODIFY:
        _modify(hca, cmd, table)
    else:
        raise BadParamError("op_mod not supported", f"{cmd.op_mod}")


def _create(hca: Hca, cmd: layout.set_fte_in, table: FlowTable) -> None:
    """Create an entry at a free index of its group.

    Raises BAD_RES_ERR for an unknown group, or one of another table. Raises BAD_PARAM_ERR for an
    index that is taken or outside the group, and as :func:`action_of`.
    """
    given = cmd.flow_context
    group = group_of(hca.flow_groups, table, given.group_id)
    steering.check_index(group, cmd.flow_index)
    lists = Lists(table, given)
    action = action_of(hca, table, given, lists, ignores_level=bool(cmd.ignore_flow_level))
    key = group.key_of(cmd.flow_index, given.match_value)
    ctx = _joined(given.copy(), lists)
    entry = FlowEntry(group, cmd.flow_index, key, action, ctx, _source(table, given))
    hca.flow_entries.add(entry)
    steering.add_entry(domain_of(hca, table), entry)


def _source(table: FlowTable, ctx: layout.flow_context) -> FlowSource:
    """Return the flow_source; raise BAD_PARAM_ERR for an unknown one, or outside an FDB."""
    try:
        source = FlowSource(ctx.flow_source)
    except ValueError:
        raise BadParamError("unknown flow_source", f"{ctx.flow_source}") from None
    if source and table.table_type is not FlowTableType.FDB:
        raise BadParamError("flow_source needs an FDB table", source.name)
    return source


def _modify(hca: Hca, cmd: layout.set_fte_in, table: FlowTable) -> None:
    """Replace the fields of an entry that modify_enable_mask selects.

    Match values and group stay. Raises BAD_RES_ERR for no entry, BAD_PARAM_ERR for another group or
    field, and as :func:`action_of`; nothing is then changed.
    """
    given = cmd.flow_context
    entry, mask = _entry(table, cmd.flow_index), cmd.modify_enable_mask
    if mask & ~int(_CHANGEABLE):
        raise BadParamError("flow table entry field cannot be modified", f"{mask:#x}")
    if given.group_id != entry.group.handle:
        raise BadParamError("flow table entry belongs to another group", f"{entry!r}")
    ctx = layout.flow_context.view(bytearray(entry.ctx))
    lists, new = Lists(table, ctx), Lists(table, given)
    if mask & SetFte.ACTION:
        ctx.action = given.action
        ctx.modify_header_id = given.modify_header_id
        ctx.push_vlan = bytes(given.push_vlan)
        ctx.push_vlan_2 = bytes(given.push_vlan_2)
        ctx.packet_reformat_id = given.packet_reformat_id
        for number, aso in enumerate(given.execute_aso):
            ctx.execute_aso[number] = bytes(aso)
    if mask & SetFte.FLOW_TAG:
        ctx.flow_tag = given.flow_tag
    if mask & SetFte.DESTINATION_LIST:
        lists.destinations = new.destinations
        ctx.extended_destination = given.extended_destination
    if mask & SetFte.FLOW_COUNTERS:
        lists.counters = new.counters
    action = action_of(hca, table, ctx, lists, ignores_level=bool(cmd.ignore_flow_level))
    items = len(lists.destinations) + len(lists.counters)
    had = len(entry.action.destinations) + len(entry.action.counters)

    def apply() -> None:
        entry.ctx = _joined(ctx, lists)
        steering.change_action(domain_of(hca, table), entry, action)

    hca.flow_entries.change(entry, apply, FlowEntry.DESTINATION_BYTES * (items - had))


@command(Op.QUERY_FLOW_TABLE_ENTRY)
def query_flow_table_entry(hca: Hca, cmd: layout.query_fte_in, out: layout.query_fte_out) -> None:
    """Return the current context and its lists, up to the output's space.

    Refuse with BAD_RES_ERR an unknown table, or an index without an entry.
    """
    table = queried_table(hca, cmd.table_type, cmd.table_id)
    ctx = _entry(table, cmd.flow_index).ctx
    fixed = layout.flow_context.size
    out.flow_context = ctx[:fixed]
    places = out.flow_context.destination
    for number in range(min(len(places), (len(ctx) - fixed) // LIST_ITEM_BYTES)):
        at = fixed + number * LIST_ITEM_BYTES
        places[number] = ctx[at : at + LIST_ITEM_BYTES]


@command(Op.DELETE_FLOW_TABLE_ENTRY, of_vports=True)
def delete_flow_table_entry(
    hca: Hca, cmd: layout.delete_fte_in, out: layout.delete_fte_out
) -> None:
    """Remove an entry; its packets then match the next entry.

    Refuse with BAD_RES_ERR an unknown table, or an index without an entry.
    """
    table = table_of(hca, cmd, cmd.table_type, cmd.table_id)
    entry = _entry(table, cmd.flow_index)
    hca.flow_entries.remove(entry.handle)
    steering.remove_entry(domain_of(hca, table), entry)

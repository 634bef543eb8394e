"""Flow table entries (FTE): what a packet has to be like, and what is done with it then.

Source: PRM "Flow steering"; core/fs_cmd.c: mlx5_cmd_set_fte.
"""

from __future__ import annotations

from functools import reduce
from itertools import islice
from operator import or_
from typing import TYPE_CHECKING, Any

from emu.device.cmdif.registry import command
from emu.device.engine.eth.steering import domain as steering
from emu.device.engine.eth.steering import vlan_tags
from emu.device.errors import CmdError
from emu.device.objects.eth.flow import (
    ACLS,
    FlowEntry,
    FlowTable,
    FteAction,
    FteVerdict,
    VportTarget,
)
from emu.device.objects.eth.flow_counter import FlowCounter
from emu.device.objects.eth.modify_header import ModifyHeader
from emu.device.objects.eth.reshape import Step
from emu.device.objects.object import Object
from emu.device.port.eth.headers import UPLINK
from firmware_cmds.options import first_set
from firmware_cmds.steering.flow_group import group_of
from firmware_cmds.steering.flow_table import domain_of, table_of
from layouts.enums import Op, Status
from layouts.eth_enums import FlowAction, FlowDestination, FlowSource, FlowTableType, SetFte
from layouts.steering import fte as layout

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca

_CREATE, _MODIFY = 0, 1
"""op_mod of SET_FLOW_TABLE_ENTRY."""

_VERDICTS = {
    FlowAction.DROP: FteVerdict.DROP,
    FlowAction.FWD_DEST: FteVerdict.FORWARD,
    FlowAction.ALLOW: FteVerdict.ALLOW,
}
_RDMA = (FlowTableType.RDMA_RX, FlowTableType.RDMA_TX)
"""Only RoCE packets can be allowed: the transport takes them, or the wire. TIRs do not."""
_ALLOWING = frozenset({*_RDMA, *ACLS})
"""Where packets can be let pass: to what comes after the tables."""
_OPTIONAL = {
    FlowAction.VLAN_POP: "pop_vlan",
    FlowAction.VLAN_POP_2: "pop_vlan_2",
    FlowAction.VLAN_PUSH: "push_vlan",
    FlowAction.VLAN_PUSH_2: "push_vlan_2",
}
"""Actions of tables that have the property of this name, in the order in which they are done:
headers change after tags have gone, and before others come."""
_BESIDE = reduce(or_, _OPTIONAL, FlowAction.COUNT | FlowAction.MOD_HDR)
"""Actions that go with a verdict."""
_BUILT = FlowAction.ALLOW | FlowAction.DROP | FlowAction.FWD_DEST | _BESIDE
_POPS = (FlowAction.VLAN_POP, FlowAction.VLAN_POP_2)
_PUSHES = {FlowAction.VLAN_PUSH: "push_vlan", FlowAction.VLAN_PUSH_2: "push_vlan_2"}
"""And where the tag is."""
_NOT_BUILT = ("extended_destination", "uplink_hairpin_en", "encrypt_decrypt_type")
"""Fields of flow_context whose features have capability bits, none of which is set."""
_CHANGEABLE = SetFte.ACTION | SetFte.FLOW_TAG | SetFte.DESTINATION_LIST | SetFte.FLOW_COUNTERS
_LIST_ITEM_BYTES = layout.dest_format_struct.size


class _Lists:
    """The destinations and counters behind a flow_context, as the driver lists them."""

    def __init__(self, ctx: layout.FlowContext) -> None:
        destinations, counters = ctx.destination_list_size, ctx.flow_counter_list_size
        if destinations + counters > len(ctx.destination):
            raise CmdError(
                Status.BAD_INP_LEN_ERR, "input is too short for its list",
                f"{destinations} destinations, {counters} counters",
            )  # fmt: skip
        items = islice(ctx.destination, destinations + counters)
        self.destinations = list(islice(items, destinations))
        self.counters = list(items)


def _check_options(ctx: layout.FlowContext, caps: Any) -> None:
    """``caps``: the properties of the table."""
    if name := first_set(ctx, _NOT_BUILT):
        raise CmdError(Status.BAD_PARAM_ERR, "flow table entry option not supported", name)
    for action in FlowAction:
        is_there = action in _BUILT and (
            action not in _OPTIONAL or getattr(caps, _OPTIONAL[action])
        )
        if ctx.action & action and not is_there:
            raise CmdError(Status.BAD_PARAM_ERR, "flow action not supported", f"{action.name}")


def _action(
    hca: Hca, table: FlowTable, ctx: layout.FlowContext, lists: _Lists, *, ignores_level: bool
) -> FteAction:
    """What a context says is done with the packets of an entry of this table."""
    caps = hca.caps.flow_properties(table.table_type)
    _check_options(ctx, caps)
    verdict = _VERDICTS.get(ctx.action & ~_BESIDE)
    if verdict is None or (verdict is FteVerdict.ALLOW and table.table_type not in _ALLOWING):
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "flow table entry must forward or drop, or allow in a table for RDMA or an ACL",
            f"{ctx.action:#x}",
        )
    if len(lists.destinations) > 1 << caps.log_max_destination:
        raise CmdError(
            Status.LIM_ERR, "more destinations than log_max_destination",
            f"{len(lists.destinations)}",
        )  # fmt: skip
    if len(lists.counters) > 1 << caps.log_max_flow_counter:
        raise CmdError(
            Status.LIM_ERR, "more counters than log_max_flow_counter", f"{len(lists.counters)}"
        )
    if bool(ctx.action & FlowAction.COUNT) != bool(lists.counters):
        raise CmdError(
            Status.BAD_PARAM_ERR, "flow counters must be listed if the action counts, and only then"
        )
    action = FteAction(
        verdict,
        tuple(_destination(hca, table, item) for item in lists.destinations),
        ctx.flow_tag,
        tuple(_counter(hca.flow_counters, item) for item in lists.counters),
        _steps(hca, table, ctx),
    )
    steering.check_action(table, action, ignores_level=ignores_level)
    return action


def _steps(hca: Hca, table: FlowTable, ctx: layout.FlowContext) -> tuple[Step, ...]:
    """What is done with a packet, in order (core/steering/dr_action.c has the same one)."""
    action = ctx.action
    steps: list[Step] = []
    steps += [vlan_tags.POP for pop in _POPS if action & pop]
    if action & FlowAction.MOD_HDR:
        steps.append(_modify_header(hca.modify_headers, table, ctx))
    steps += [vlan_tags.push(getattr(ctx, tag)) for push, tag in _PUSHES.items() if action & push]
    return tuple(steps)


def _modify_header(
    contexts: Table[ModifyHeader], table: FlowTable, ctx: layout.FlowContext
) -> ModifyHeader:
    context = contexts.need(ctx.modify_header_id)
    if context.table_type is not table.table_type:
        raise CmdError(
            Status.BAD_PARAM_ERR, "modify header context is for tables of another type",
            f"{context!r}",
        )  # fmt: skip
    return context


def _destination(hca: Hca, table: FlowTable, item: bytes) -> Object:
    given = layout.dest_format_struct.view(item)
    is_vport = given.destination_type in (FlowDestination.VPORT, FlowDestination.UPLINK)
    is_own = is_vport and given.destination_eswitch_owner_vhca_id == hca.vhca.number
    if given.packet_reformat or (given.destination_eswitch_owner_vhca_id_valid and not is_own):
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "packet reformat and other functions' destinations are not supported",
        )
    if table.table_type is FlowTableType.FDB:
        if given.destination_type == FlowDestination.UPLINK:
            return VportTarget(UPLINK)
        if given.destination_type == FlowDestination.VPORT:
            return _vport_target(hca, given.destination_id)
    elif given.destination_type == FlowDestination.TIR and table.table_type not in _ALLOWING:
        return hca.tirs.need(given.destination_id)
    if given.destination_type == FlowDestination.FLOW_TABLE:
        target = hca.flow_tables.need(given.destination_id)
        if target.table_type is not table.table_type:
            raise CmdError(Status.BAD_RES_ERR, "flow table is of another type", f"{target!r}")
        if target.vport != table.vport:
            raise CmdError(Status.BAD_RES_ERR, "flow table is of another vPort", f"{target!r}")
        return target
    raise CmdError(
        Status.BAD_PARAM_ERR, "destination_type not supported", f"{given.destination_type}"
    )


def _vport_target(hca: Hca, number: int) -> VportTarget:
    if not hca.vhca.sees(number):
        raise CmdError(Status.BAD_PARAM_ERR, "no such vport", f"{number}")
    return VportTarget(number)


def _counter(counters: Table[FlowCounter], item: bytes) -> FlowCounter:
    return counters.need(layout.flow_counter_list.view(item).flow_counter_id)


def _joined(ctx: layout.FlowContext, lists: _Lists) -> bytes:
    """What a query returns: the context with its lists behind it."""
    ctx.destination_list_size = len(lists.destinations)
    ctx.flow_counter_list_size = len(lists.counters)
    return bytes(ctx) + b"".join(lists.destinations) + b"".join(lists.counters)


def _entry(table: FlowTable, index: int) -> FlowEntry:
    entry = table.entry_at(index)
    if entry is None:
        raise CmdError(Status.BAD_RES_ERR, "no such flow table entry", f"{table!r} index {index}")
    return entry


@command(Op.SET_FLOW_TABLE_ENTRY, layout.set_fte_in, layout.set_fte_out, of_vports=True)
def set_flow_table_entry(hca: Hca, cmd: layout.SetFteIn, out: layout.SetFteOut) -> None:
    """Make an entry at an index of a group, or change what an entry does with its packets."""
    table = table_of(hca, cmd)
    if cmd.op_mod == _CREATE:
        _create(hca, cmd, table)
    elif cmd.op_mod == _MODIFY:
        _modify(hca, cmd, table)
    else:
        raise CmdError(Status.BAD_PARAM_ERR, "op_mod not supported", f"{cmd.op_mod}")


def _create(hca: Hca, cmd: layout.SetFteIn, table: FlowTable) -> None:
    given = cmd.flow_context
    group = group_of(hca.flow_groups, table, given.group_id)
    steering.check_index(group, cmd.flow_index)
    lists = _Lists(given)
    action = _action(hca, table, given, lists, ignores_level=bool(cmd.ignore_flow_level))
    key = group.criteria.key_of(group.criteria.values_of(given.match_value))
    ctx = _joined(layout.flow_context.view(bytearray(bytes(given))), lists)
    entry = FlowEntry(group, cmd.flow_index, key, action, ctx, _source(table, given))
    hca.flow_entries.add(entry)
    steering.add_entry(domain_of(hca, table), entry)


def _source(table: FlowTable, ctx: layout.FlowContext) -> FlowSource:
    try:
        source = FlowSource(ctx.flow_source)
    except ValueError:
        raise CmdError(Status.BAD_PARAM_ERR, "unknown flow_source", f"{ctx.flow_source}") from None
    if source and table.table_type is not FlowTableType.FDB:
        raise CmdError(Status.BAD_PARAM_ERR, "flow_source is for entries of an FDB", source.name)
    return source


def _modify(hca: Hca, cmd: layout.SetFteIn, table: FlowTable) -> None:
    """Take what modify_enable_mask names from the new context, the rest from the old one."""
    given = cmd.flow_context
    entry, mask = _entry(table, cmd.flow_index), cmd.modify_enable_mask
    if mask & ~int(_CHANGEABLE):
        raise CmdError(
            Status.BAD_PARAM_ERR, "flow table entry field cannot be modified", f"{mask:#x}"
        )
    if given.group_id != entry.group.handle:
        raise CmdError(Status.BAD_PARAM_ERR, "flow table entry is of another group", f"{entry!r}")
    ctx = layout.flow_context.view(bytearray(entry.ctx))
    lists, new = _Lists(ctx), _Lists(given)
    if mask & SetFte.ACTION:
        ctx.action = given.action
        ctx.modify_header_id = given.modify_header_id
        ctx.push_vlan = bytes(given.push_vlan)
        ctx.push_vlan_2 = bytes(given.push_vlan_2)
    if mask & SetFte.FLOW_TAG:
        ctx.flow_tag = given.flow_tag
    if mask & SetFte.DESTINATION_LIST:
        lists.destinations = new.destinations
    if mask & SetFte.FLOW_COUNTERS:
        lists.counters = new.counters
    action = _action(hca, table, ctx, lists, ignores_level=bool(cmd.ignore_flow_level))
    items = len(lists.destinations) + len(lists.counters)
    had = len(entry.action.destinations) + len(entry.action.counters)

    def apply() -> None:
        entry.ctx = _joined(ctx, lists)
        steering.change_action(domain_of(hca, table), entry, action)

    hca.flow_entries.change(entry, apply, FlowEntry.DESTINATION_BYTES * (items - had))


@command(Op.QUERY_FLOW_TABLE_ENTRY, layout.query_fte_in, layout.query_fte_out)
def query_flow_table_entry(hca: Hca, cmd: layout.QueryFteIn, out: layout.QueryFteOut) -> None:
    """Return the context of now, and as much of its lists as the output has room for."""
    ctx = _entry(table_of(hca, cmd), cmd.flow_index).ctx
    fixed = layout.flow_context.size
    out.flow_context = ctx[:fixed]
    places = out.flow_context.destination
    for number in range(min(len(places), (len(ctx) - fixed) // _LIST_ITEM_BYTES)):
        at = fixed + number * _LIST_ITEM_BYTES
        places[number] = ctx[at : at + _LIST_ITEM_BYTES]


@command(Op.DELETE_FLOW_TABLE_ENTRY, layout.delete_fte_in, layout.delete_fte_out, of_vports=True)
def delete_flow_table_entry(hca: Hca, cmd: layout.DeleteFteIn, out: layout.DeleteFteOut) -> None:
    """Remove an entry; its packets go to the next entry that they match."""
    table = table_of(hca, cmd)
    entry = _entry(table, cmd.flow_index)
    hca.flow_entries.remove(entry.handle)
    steering.remove_entry(domain_of(hca, table), entry)

"""Actions of flow table entries: checks of a flow_context and its lists.

Source: PRM "Flow steering"; core/fs_cmd.c: mlx5_cmd_set_fte.
"""

from __future__ import annotations

from functools import reduce
from itertools import islice
from operator import or_
from typing import TYPE_CHECKING, Any

from emu.device.engine.eth.steering import changes as steering
from emu.device.engine.eth.steering import vlan_tags
from emu.device.engine.eth.steering.reformat import DECAP
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.flow.action import FteAction, FteVerdict, VportTarget
from emu.device.objects.eth.flow.table import ACLS, FlowTable
from emu.device.objects.eth.flow.targets import Sampler
from emu.device.objects.eth.flow_counter import FlowCounter, FlowCounters
from emu.device.objects.eth.modify_header import ModifyHeader
from emu.device.objects.eth.packet_reformat import BEGINNINGS, PacketReformat
from emu.device.objects.eth.reshape import Step
from emu.device.objects.object import Object
from emu.device.port.eth.headers import UPLINK
from firmware_cmds.options import first_set
from firmware_cmds.steering.flow_meter import metering_of
from layouts.enums.cmd import Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction, FlowDestination
from layouts.enums.packet_reformat import ReformatType
from layouts.steering import fte as layout

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_VERDICTS = {
    FlowAction.DROP: FteVerdict.DROP,
    FlowAction.FWD_DEST: FteVerdict.FORWARD,
    FlowAction.ALLOW: FteVerdict.ALLOW,
}
_GOING_ON = (FlowTableType.RDMA_RX, FlowTableType.RDMA_TX, FlowTableType.NIC_TX)
"""Table types with ALLOW: allowed packets are delivered to the transport (RoCE) or the wire, not to
TIRs.
"""
_ALLOWING = frozenset({*_GOING_ON, *ACLS})
"""Table types whose entries can allow packets, which then leave the tables."""
_WITHOUT_TIRS = _ALLOWING | {FlowTableType.FDB, FlowTableType.PORT_SEL}
_OPTIONAL = {
    FlowAction.VLAN_POP: "pop_vlan",
    FlowAction.VLAN_POP_2: "pop_vlan_2",
    FlowAction.VLAN_PUSH: "push_vlan",
    FlowAction.VLAN_PUSH_2: "push_vlan_2",
    FlowAction.DECAP: "decap",
    FlowAction.PACKET_REFORMAT: "reformat",
    FlowAction.EXECUTE_ASO: "execute_aso",
}
"""Actions of tables that have the property of this name."""
_BESIDE = reduce(or_, _OPTIONAL, FlowAction.COUNT | FlowAction.MOD_HDR)
"""Actions that may accompany a verdict."""
_BUILT = FlowAction.ALLOW | FlowAction.DROP | FlowAction.FWD_DEST | _BESIDE
_POPS = (FlowAction.VLAN_POP, FlowAction.VLAN_POP_2)
_PUSHES = {FlowAction.VLAN_PUSH: "push_vlan", FlowAction.VLAN_PUSH_2: "push_vlan_2"}
"""Field of the tag that each action pushes."""
_NOT_BUILT = ("encrypt_decrypt_type",)
"""Fields of flow_context whose features have capability bits, none of which is set."""
LIST_ITEM_BYTES = layout.dest_format_struct.size
LONG = layout.extended_dest_format.size // LIST_ITEM_BYTES
"""Number of list items that a destination occupies with extended_destination."""


class Lists:
    """Destinations and counters behind a flow_context, in the driver's order.

    Each has the size of a destination; of a counter only the first 8 bytes are used.
    """

    def __init__(self, table: FlowTable, ctx: layout.flow_context) -> None:
        if ctx.extended_destination and table.table_type is not FlowTableType.FDB:
            raise BadParamError("extended_destination needs an FDB table")
        destinations, counters = ctx.destination_list_size, ctx.flow_counter_list_size
        places = LONG if ctx.extended_destination else 1
        number = destinations + counters
        if number * places > len(ctx.destination):
            raise CmdError(
                Status.BAD_INP_LEN_ERR, "input is too short for its list",
                f"{destinations} destinations, {counters} counters",
            )  # fmt: skip
        pieces = [*islice(ctx.destination, number * places)]
        items = [b"".join(pieces[at : at + places]) for at in range(0, number * places, places)]
        self.destinations = items[:destinations]
        self.counters = [item[:LIST_ITEM_BYTES] for item in items[destinations:]]


def _check_options(ctx: layout.flow_context, caps: Any) -> None:
    """Refuse unsupported options and actions with BAD_PARAM_ERR.

    ``caps`` are the flow properties of the table's type, without which an optional action is not
    supported.
    """
    if name := first_set(ctx, _NOT_BUILT):
        raise BadParamError("flow table entry option not supported", name)
    for action in FlowAction:
        is_there = action in _BUILT and (
            action not in _OPTIONAL or getattr(caps, _OPTIONAL[action])
        )
        if ctx.action & action and not is_there:
            raise BadParamError("flow action not supported", f"{action.name}")


def action_of(
    hca: Hca, table: FlowTable, ctx: layout.flow_context, lists: Lists, *, ignores_level: bool
) -> FteAction:
    """Return the action of a context for the packets of an entry of this table.

    Raises BAD_PARAM_ERR for an unsupported option, verdict or destination, and for counters without
    COUNT. Raises LIM_ERR for lists above their capabilities, BAD_RES_ERR for unknown objects.
    ``ignores_level`` permits tables of lower levels.
    """
    caps = hca.caps.flow_properties(table.table_type)
    _check_options(ctx, caps)
    if ctx.uplink_hairpin_en and table.table_type is not FlowTableType.FDB:
        raise BadParamError("uplink_hairpin_en needs an FDB table")
    verdict = _VERDICTS.get(ctx.action & ~_BESIDE)
    if verdict is not FteVerdict.FORWARD and table.table_type is FlowTableType.PORT_SEL:
        verdict = None
    if verdict is None or (verdict is FteVerdict.ALLOW and table.table_type not in _ALLOWING):
        raise BadParamError(
            "flow table entry must forward or drop, or allow in a table type that permits it",
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
        raise BadParamError("flow counters must be listed if the action counts, and only then")
    action = FteAction(
        verdict,
        tuple(_destination(hca, table, item) for item in lists.destinations),
        ctx.flow_tag,
        tuple(_counter(hca.flow_counters, item) for item in lists.counters),
        _steps(hca, table, ctx),
        metering_of(hca, table, ctx),
    )
    if sum(bool(target.holds()) for target in action.vports) > _max_reformats(hca.caps):
        raise CmdError(Status.LIM_ERR, "more reformats than log_max_fdb_encap_uplink")
    steering.check_action(table, action, ignores_level=ignores_level)
    may_return = bool(ctx.uplink_hairpin_en or table.ctx.termination_table)
    for target in action.vports:
        target.may_return = may_return
    return action


def _steps(tables: ObjectTables, table: FlowTable, ctx: layout.flow_context) -> tuple[Step, ...]:
    """Return the steps applied to a packet, in the order of core/steering/dr_action.c.

    Raises as :func:`_modify_header` and :func:`_packet_reformat`.
    """
    action = ctx.action
    steps: list[Step] = [DECAP] if action & FlowAction.DECAP else []
    steps += [vlan_tags.POP for pop in _POPS if action & pop]
    if action & FlowAction.MOD_HDR:
        steps.append(_modify_header(tables.modify_headers, table, ctx))
    steps += [vlan_tags.push(getattr(ctx, tag)) for push, tag in _PUSHES.items() if action & push]
    if action & FlowAction.PACKET_REFORMAT:
        steps.append(_packet_reformat(tables, table, ctx.packet_reformat_id))
    return tuple(steps)


_REFORMATS = {
    FlowTableType.NIC_RX: frozenset({ReformatType.L3_TUNNEL_TO_L2}),
    FlowTableType.NIC_TX: BEGINNINGS | {ReformatType.L2_TO_L3_TUNNEL},
    FlowTableType.FDB: frozenset(ReformatType),
}
"""Actions of each table type on a whole packet, besides DECAP."""


def _packet_reformat(tables: ObjectTables, table: FlowTable, number: int) -> PacketReformat:
    """Return the context; BAD_RES_ERR if unknown, BAD_PARAM_ERR if wrong for this table type."""
    context = tables.packet_reformats.need(number)
    if context.reformat_type not in _REFORMATS[table.table_type]:
        raise BadParamError("packet reformat context is for tables of another type", f"{context!r}")
    return context


def _modify_header(
    contexts: Table[ModifyHeader], table: FlowTable, ctx: layout.flow_context
) -> ModifyHeader:
    """Return the context; BAD_RES_ERR if unknown, BAD_PARAM_ERR if wrong for this table type."""
    context = contexts.need(ctx.modify_header_id)
    if context.table_type is not table.table_type:
        raise BadParamError("modify header context is for tables of another type", f"{context!r}")
    return context


def _destination(hca: Hca, table: FlowTable, item: bytes) -> Object:
    """Return the object that a list item names: vPort, TIR, flow table or sampler.

    Raises BAD_PARAM_ERR for a type that the table cannot forward to or an unknown vPort,
    BAD_RES_ERR for an unknown object.
    """
    given = layout.dest_format_struct.view(item[:LIST_ITEM_BYTES])
    is_vport = given.destination_type in (FlowDestination.VPORT, FlowDestination.UPLINK)
    if given.destination_eswitch_owner_vhca_id_valid and not is_vport:
        raise BadParamError("destinations of other functions are not supported")
    is_fdb = table.table_type is FlowTableType.FDB
    if is_vport and (is_fdb or table.table_type is FlowTableType.ESW_EGRESS_ACL):
        return _vport_target(hca, given, _reformat(hca, table, item, given) if is_fdb else None)
    if given.packet_reformat:
        raise BadParamError("packet_reformat needs a vPort destination of an FDB")
    is_cable = given.destination_type == FlowDestination.UPLINK
    if is_cable and table.table_type is FlowTableType.PORT_SEL:
        return _vport_target(hca, given, None)
    if given.destination_type == FlowDestination.TIR and table.table_type not in _WITHOUT_TIRS:
        return hca.tirs.need(given.destination_id)
    if given.destination_type == FlowDestination.FLOW_TABLE:
        target = hca.flow_tables.need(given.destination_id)
        if target.table_type is not table.table_type:
            raise CmdError(Status.BAD_RES_ERR, "flow table has another type", f"{target!r}")
        if target.vport != table.vport:
            raise CmdError(Status.BAD_RES_ERR, "flow table belongs to another vPort", f"{target!r}")
        return target
    if given.destination_type == FlowDestination.FLOW_SAMPLER and is_fdb:
        return hca.objects[Sampler].need(given.destination_id)
    raise BadParamError("destination_type not supported", f"{given.destination_type}")


def _max_reformats(caps: Caps) -> int:
    """Return the maximum number of destinations with their own packet reformat in one entry."""
    return 1 << caps.eswitch.log_max_fdb_encap_uplink


def _reformat(
    tables: ObjectTables, table: FlowTable, item: bytes, given: layout.dest_format_struct
) -> PacketReformat | None:
    """Return the reformat of the packets of one destination; only a long item names one.

    Return None for an item without one. Raises BAD_PARAM_ERR for a short item, and as
    :func:`_packet_reformat`.
    """
    if not given.packet_reformat:
        return None
    if len(item) < layout.extended_dest_format.size:
        raise BadParamError("packet_reformat without extended_destination")
    number = layout.extended_dest_format.view(item).packet_reformat_id
    return _packet_reformat(tables, table, number)


def _is_merged(caps: Caps) -> bool:
    """Return whether tables may forward to vPorts of the board's other switches."""
    return bool(caps.eswitch.merged_eswitch)


def _vport_target(
    hca: Hca, given: layout.dest_format_struct, reformat: PacketReformat | None
) -> VportTarget:
    """Return a new target for a vPort or the uplink, of this or another switch of the board.

    Raises BAD_PARAM_ERR for an unknown vPort or switch, and unless the sender is the manager.
    """
    is_uplink = given.destination_type == FlowDestination.UPLINK
    number = UPLINK if is_uplink else int(given.destination_id)
    port = hca.adapter.number
    owner = int(given.destination_eswitch_owner_vhca_id)
    if given.destination_eswitch_owner_vhca_id_valid and owner != hca.vhca.number:
        adapter = hca.adapter.board.managed_by(owner) if _is_merged(hca.caps) else None
        if adapter is None:
            raise BadParamError("no such switch on the board", f"{owner:#x}")
        port = adapter.number
    if not hca.vhca.is_manager or not hca.adapter.board.has_vport(port, number):
        raise BadParamError("no such vport", f"{number}")
    return VportTarget(number, port, reformat)


def _counter(counters: FlowCounters, item: bytes) -> FlowCounter:
    return counters.need(layout.flow_counter_list.view(item).flow_counter_id)

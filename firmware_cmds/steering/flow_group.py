"""Flow groups: match criteria of a range of a table's indices (core/fs_cmd.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.eth.steering import changes as steering
from emu.device.engine.eth.steering.criteria import Criteria, fields_of
from emu.device.engine.eth.steering.hash_split import HashSplit
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.flow.matcher import Matcher
from emu.device.objects.eth.flow.table import SWITCHING, FlowGroup, FlowTable
from emu.device.objects.eth.match_definer import MatchDefiner
from firmware_cmds.steering.flow_table import domain_of, queried_table, table_of
from firmware_cmds.steering.software import check_is_firmwares
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowGroupType, FlowTableType
from layouts.steering import flow_group as layout

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables


_OF_MANAGERS = (FlowTableType.NIC_RX, FlowTableType.RDMA_RX)
"""Tables in which the manager of a switch can match the source vPort of a packet."""


def group_of(groups: Table[FlowGroup], table: FlowTable, number: int) -> FlowGroup:
    """Return the group with this number, which must be the table's.

    Raises BAD_RES_ERR for an unknown number, or a group of another table.
    """
    group = groups.need(number)
    if group.table is not table:
        raise CmdError(Status.BAD_RES_ERR, "flow group belongs to another table", f"{group!r}")
    return group


@command(Op.CREATE_FLOW_GROUP, of_vports=True)
def create_flow_group(
    hca: Hca, cmd: layout.create_flow_group_in, out: layout.create_flow_group_out
) -> None:
    """Assign a range of indices to entries with the same match fields; groups do not overlap.

    Refuse with BAD_PARAM_ERR a range outside the table or an overlap, a table that software owns,
    and fields that cannot be matched.
    """
    table = table_of(hca, cmd, cmd.table_type, cmd.table_id)
    check_is_firmwares(table)
    first, last = cmd.start_flow_index, cmd.end_flow_index
    steering.check_group(table, first, last)
    definer = _definer(hca, table, cmd)
    criteria: Matcher
    if definer is None:
        criteria = Criteria(
            fields_of(cmd.match_criteria, cmd.match_criteria_enable),
            knows_source=table.table_type in SWITCHING
            or (table.table_type in _OF_MANAGERS and hca.eswitch is not None),
        )
    else:
        criteria = HashSplit(definer.masks, last - first + 1)
    match = layout.query_flow_group_out.new(
        start_flow_index=first, end_flow_index=last,
        match_criteria_enable=cmd.match_criteria_enable, match_criteria=cmd.match_criteria,
    )  # fmt: skip
    group = FlowGroup(table, criteria, match, definer)
    out.group_id = hca.flow_groups.add(group)
    steering.add_group(domain_of(hca, table), group)


def _definer(
    tables: ObjectTables, table: FlowTable, cmd: layout.create_flow_group_in
) -> MatchDefiner | None:
    """Return the match definer of a hash group; None for a group with criteria.

    Raises BAD_PARAM_ERR for a hash group in a table other than PORT_SEL, BAD_RES_ERR for an unknown
    definer.
    """
    if cmd.group_type == FlowGroupType.HASH_SPLIT and table.table_type is FlowTableType.PORT_SEL:
        return tables.objects[MatchDefiner].need(cmd.match_definer_id)
    if cmd.group_type or cmd.match_definer_id:
        raise BadParamError(
            "only port selection tables have flow groups that split by a hash", f"{cmd.group_type}"
        )
    return None


@command(Op.QUERY_FLOW_GROUP)
def query_flow_group(
    hca: Hca, cmd: layout.query_flow_group_in, out: layout.query_flow_group_out
) -> None:
    """Return the group's indices and criteria.

    Refuse with BAD_RES_ERR an unknown table or group, or a group of another table.
    """
    table = queried_table(hca, cmd.table_type, cmd.table_id)
    match = group_of(hca.flow_groups, table, cmd.group_id).match
    for name in ("start_flow_index", "end_flow_index", "match_criteria_enable", "match_criteria"):
        setattr(out, name, getattr(match, name))


@command(Op.DESTROY_FLOW_GROUP, of_vports=True)
def destroy_flow_group(
    hca: Hca, cmd: layout.destroy_flow_group_in, out: layout.destroy_flow_group_out
) -> None:
    """Destroy the group; refused while it has entries.

    The refusal is BAD_RES_STATE_ERR. An unknown group, or one of another table, gets BAD_RES_ERR.
    """
    table = table_of(hca, cmd, cmd.table_type, cmd.table_id)
    group = group_of(hca.flow_groups, table, cmd.group_id)
    hca.flow_groups.remove(group.handle)
    steering.remove_group(domain_of(hca, group.table), group)

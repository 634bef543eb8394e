"""Modify header contexts: changes that flow table entries make to packets (core/fs_cmd.c)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.eth.steering.rewrite import context_of
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.flow.table import SWITCHING
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.steering import modify_header as layout

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables

_OWN = (FlowTableType.NIC_RX, FlowTableType.NIC_TX)
"""Table types of the function, not of a switch, whose entries change packets."""


@command(Op.ALLOC_MODIFY_HEADER_CONTEXT)
def alloc_modify_header_context(
    tables: ObjectTables,
    cmd: layout.alloc_modify_header_context_in,
    out: layout.alloc_modify_header_context_out,
) -> None:
    """Create a list of changes for the entries of tables of one type.

    Refuse with BAD_PARAM_ERR a table type without them, 0 actions or more than the maximum, and an
    unsupported action. A short input gets BAD_INP_LEN_ERR.
    """
    is_own = cmd.table_type in _OWN and tables.flow_domain(cmd.table_type) is not None
    if not is_own and (tables.eswitch is None or cmd.table_type not in SWITCHING):
        raise BadParamError(
            "no modify header contexts for tables of this type", f"{cmd.table_type}"
        )
    table_type = FlowTableType(cmd.table_type)
    max_actions = tables.caps.flow_properties(table_type).max_modify_header_actions
    number = cmd.num_of_actions
    if not 1 <= number <= max_actions:
        raise BadParamError("num_of_actions is 0, or above max_modify_header_actions", f"{number}")
    if number > len(cmd.actions):
        raise CmdError(
            Status.BAD_INP_LEN_ERR, "input is too short for its actions", f"{number} actions"
        )
    context = context_of(table_type, list(islice(cmd.actions, number)))
    out.modify_header_id = tables.modify_headers.add(context)


@command(Op.DEALLOC_MODIFY_HEADER_CONTEXT)
def dealloc_modify_header_context(
    tables: ObjectTables,
    cmd: layout.dealloc_modify_header_context_in,
    out: layout.dealloc_modify_header_context_out,
) -> None:
    """Destroy the context; refused while entries use it."""
    tables.modify_headers.remove(cmd.modify_header_id)

"""Packet reformat contexts: headers that entries add or remove (core/fs_cmd.c).

Tables of the embedded switch have them; those of the function have the two ends of a tunnel.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.eth.steering.reformat import context_of
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.packet_reformat import TUNNELS
from firmware_cmds.function.eswitch import eswitch_of
from layouts.enums.cmd import Op, Status
from layouts.enums.packet_reformat import ReformatType
from layouts.steering import packet_reformat as layout

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables

_PIECE_BYTES = 2
_FIXED_BYTES = layout.packet_reformat_context_in.size - 2
"""Size in bytes of the fields before reformat_data."""


@command(Op.ALLOC_PACKET_REFORMAT_CONTEXT)
def alloc_packet_reformat_context(
    tables: ObjectTables,
    cmd: layout.alloc_packet_reformat_context_in,
    out: layout.alloc_packet_reformat_context_out,
) -> None:
    """Create a context; one that removes headers has a size and no data.

    Refuse with BAD_OP_ERR a type that needs an embedded switch to manage. Refuse an unsupported
    type or size with BAD_PARAM_ERR, a short input with BAD_INP_LEN_ERR.
    """
    ctx = cmd.packet_reformat_context
    kind, size = ctx.reformat_type, ctx.reformat_data_size
    max_size = tables.caps.flow_table.max_encap_header_size
    if not max_size or kind not in TUNNELS:  # only for a switch's tables
        eswitch_of(tables)
    if tables.eswitch is not None:
        max_size = max(max_size, tables.caps.eswitch.max_encap_header_size)
    if not 1 <= size <= max_size or size % _PIECE_BYTES:
        raise BadParamError(
            "reformat_data_size is 0, odd, or above max_encap_header_size", f"{size}"
        )
    data = b"".join(
        (bytes(ctx.reformat_data), *islice(ctx.more_reformat_data, size // _PIECE_BYTES))
    )
    if kind != ReformatType.REMOVE_HDR and len(data) < size:
        raise CmdError(
            Status.BAD_INP_LEN_ERR, "input is too short for its reformat_data", f"{size} bytes"
        )
    context = context_of(
        kind, ctx.reformat_param_0, ctx.reformat_param_1, size, data[:size],
        bytes(ctx)[: _FIXED_BYTES] + data,
    )  # fmt: skip
    out.packet_reformat_id = tables.packet_reformats.add(context)


@command(Op.QUERY_PACKET_REFORMAT_CONTEXT)
def query_packet_reformat_context(
    tables: ObjectTables,
    cmd: layout.query_packet_reformat_context_in,
    out: layout.query_packet_reformat_context_out,
) -> None:
    """Return a context and its data, up to the output's space."""
    ctx = tables.packet_reformats.need(cmd.packet_reformat_id).ctx
    fixed = layout.packet_reformat_context_in.size
    out.packet_reformat_context = ctx[:fixed]
    places = out.packet_reformat_context.more_reformat_data
    for number in range(min(len(places), (len(ctx) - fixed) // _PIECE_BYTES)):
        at = fixed + number * _PIECE_BYTES
        places[number] = ctx[at : at + _PIECE_BYTES]


@command(Op.DEALLOC_PACKET_REFORMAT_CONTEXT)
def dealloc_packet_reformat_context(
    tables: ObjectTables,
    cmd: layout.dealloc_packet_reformat_context_in,
    out: layout.dealloc_packet_reformat_context_out,
) -> None:
    """Destroy the context; refused while entries use it.

    Cached software steering is dropped.
    """
    tables.packet_reformats.remove(cmd.packet_reformat_id)
    if tables.icm is not None:
        tables.icm.changed()

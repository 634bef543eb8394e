"""Modify header contexts: lists of changes to header fields, named by flow table entries.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

set_action_in = Prm(
    "set_action_in",
    "action_type" / bits(4), "field" / bits(12), rsvd(3), "offset" / bits(5), rsvd(3),
    "length" / bits(5), "data" / bits(32),
)

add_action_in = Prm(
    "add_action_in",
    "action_type" / bits(4), "field" / bits(12), rsvd(16), "data" / bits(32),
)

copy_action_in = Prm(
    "copy_action_in",
    "action_type" / bits(4), "src_field" / bits(12), rsvd(3), "src_offset" / bits(5), rsvd(3),
    "length" / bits(5), rsvd(4), "dst_field" / bits(12), rsvd(3), "dst_offset" / bits(5), rsvd(8),
)

alloc_modify_header_context_in = Prm(
    "alloc_modify_header_context_in",
    *CMD_IN_NO_UID, rsvd(32), "table_type" / bits(8), rsvd(16), "num_of_actions" / bits(8),
    "actions" / tail(octets(8)),
)

alloc_modify_header_context_out = Prm(
    "alloc_modify_header_context_out",
    *CMD_OUT, "modify_header_id" / bits(32), rsvd(32),
)

dealloc_modify_header_context_in = Prm(
    "dealloc_modify_header_context_in",
    *CMD_IN_NO_UID, "modify_header_id" / bits(32), rsvd(32),
)

dealloc_modify_header_context_out = Prm("dealloc_modify_header_context_out", *CMD_OUT, rsvd(64))

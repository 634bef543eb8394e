"""Packet reformat contexts: headers that flow table entries add or remove.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

# more_reformat_data continues reformat_data; both have reformat_data_size bytes in all.
packet_reformat_context_in = Prm(
    "packet_reformat_context_in",
    "reformat_type" / bits(8), rsvd(4), "reformat_param_0" / bits(4), rsvd(6),
    "reformat_data_size" / bits(10), "reformat_param_1" / bits(8), rsvd(8),
    "reformat_data" / octets(2), "more_reformat_data" / tail(octets(2)),
)

alloc_packet_reformat_context_in = Prm(
    "alloc_packet_reformat_context_in",
    *CMD_IN_NO_UID, rsvd(160), "packet_reformat_context" / packet_reformat_context_in,
)

alloc_packet_reformat_context_out = Prm(
    "alloc_packet_reformat_context_out",
    *CMD_OUT, "packet_reformat_id" / bits(32), rsvd(32),
)

query_packet_reformat_context_in = Prm(
    "query_packet_reformat_context_in",
    *CMD_IN_NO_UID, "packet_reformat_id" / bits(32), rsvd(160),
)

query_packet_reformat_context_out = Prm(
    "query_packet_reformat_context_out",
    *CMD_OUT, rsvd(160), "packet_reformat_context" / packet_reformat_context_in,
)

dealloc_packet_reformat_context_in = Prm(
    "dealloc_packet_reformat_context_in",
    *CMD_IN_NO_UID, "packet_reformat_id" / bits(32), rsvd(32),
)

dealloc_packet_reformat_context_out = Prm("dealloc_packet_reformat_context_out", *CMD_OUT, rsvd(64))

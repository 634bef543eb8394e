"""Packet reformat contexts: headers that flow table entries add or remove.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, octets, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

# more_reformat_data continues reformat_data; both have reformat_data_size bytes in all.
class packet_reformat_context_in(Prm):
    reformat_type = bits(8); _ = rsvd(4); reformat_param_0 = bits(4); _ = rsvd(6)
    reformat_data_size = bits(10)
    reformat_param_1 = bits(8); _ = rsvd(8); reformat_data = octets(2)
    more_reformat_data = tail(octets(2))

class alloc_packet_reformat_context_in(CmdInNoUid):
    _ = rsvd(160); packet_reformat_context = nested(packet_reformat_context_in)

class alloc_packet_reformat_context_out(CmdOut): packet_reformat_id = bits(32); _ = rsvd(32)
class query_packet_reformat_context_in(CmdInNoUid): packet_reformat_id = bits(32); _ = rsvd(160)

class query_packet_reformat_context_out(CmdOut):
    _ = rsvd(160); packet_reformat_context = nested(packet_reformat_context_in)

class dealloc_packet_reformat_context_in(CmdInNoUid): packet_reformat_id = bits(32); _ = rsvd(32)
class dealloc_packet_reformat_context_out(CmdOut): _ = rsvd(64)

"""Modify header contexts: lists of changes to header fields, named by flow table entries.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, octets, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class set_action_in(Prm):
    action_type = bits(4); field = bits(12); _ = rsvd(3); offset = bits(5); _ = rsvd(3)
    length = bits(5); data = bits(32)

class add_action_in(Prm): action_type = bits(4); field = bits(12); _ = rsvd(16); data = bits(32)

class copy_action_in(Prm):
    action_type = bits(4); src_field = bits(12); _ = rsvd(3); src_offset = bits(5); _ = rsvd(3)
    length = bits(5)
    _ = rsvd(4); dst_field = bits(12); _ = rsvd(3); dst_offset = bits(5); _ = rsvd(8)

class alloc_modify_header_context_in(CmdInNoUid):
    _ = rsvd(32); table_type = bits(8); _ = rsvd(16); num_of_actions = bits(8)
    actions = tail(octets(8))

class alloc_modify_header_context_out(CmdOut): modify_header_id = bits(32); _ = rsvd(32)
class dealloc_modify_header_context_in(CmdInNoUid): modify_header_id = bits(32); _ = rsvd(32)
class dealloc_modify_header_context_out(CmdOut): _ = rsvd(64)

"""Flow groups: a range of a flow table's indices whose entries match the same fields.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut, VportIn
from layouts.prm import bits, nested, rsvd
from layouts.steering.flow_match import fte_match_param

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class create_flow_group_in(VportIn):
    _ = rsvd(32)
    table_type = bits(8); _ = rsvd(4); group_type = bits(4); _ = rsvd(24); table_id = bits(24)
    source_eswitch_owner_vhca_id_valid = bits(1); _ = rsvd(31); start_flow_index = bits(32)
    _ = rsvd(32); end_flow_index = bits(32); _ = rsvd(16); match_definer_id = bits(16)
    _ = rsvd(152); match_criteria_enable = bits(8); match_criteria = nested(fte_match_param)
    _ = rsvd(3584)

class create_flow_group_out(CmdOut): _ = rsvd(8); group_id = bits(24); _ = rsvd(32)

class query_flow_group_in(CmdInNoUid):
    _ = rsvd(64); table_type = bits(8); _ = rsvd(32); table_id = bits(24); group_id = bits(32)
    _ = rsvd(288)

class query_flow_group_out(CmdOut):
    _ = rsvd(160); start_flow_index = bits(32); _ = rsvd(32); end_flow_index = bits(32)
    _ = rsvd(184); match_criteria_enable = bits(8); match_criteria = nested(fte_match_param)
    _ = rsvd(3584)

class destroy_flow_group_in(VportIn):
    _ = rsvd(32)
    table_type = bits(8); _ = rsvd(32); table_id = bits(24); group_id = bits(32); _ = rsvd(288)

class destroy_flow_group_out(CmdOut): _ = rsvd(64)

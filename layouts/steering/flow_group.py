"""Flow groups: a range of a flow table's indices whose entries match the same fields.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd
from layouts.steering.flow_match import fte_match_param

# Fields stand in rows, as in the PRM's figures.
# fmt: off

create_flow_group_in = Prm(
    "create_flow_group_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(32),
    "table_type" / bits(8), rsvd(4), "group_type" / bits(4), rsvd(24), "table_id" / bits(24),
    "source_eswitch_owner_vhca_id_valid" / bits(1), rsvd(31), "start_flow_index" / bits(32),
    rsvd(32), "end_flow_index" / bits(32), rsvd(16), "match_definer_id" / bits(16), rsvd(152),
    "match_criteria_enable" / bits(8), "match_criteria" / fte_match_param, rsvd(3584),
)

create_flow_group_out = Prm(
    "create_flow_group_out",
    *CMD_OUT, rsvd(8), "group_id" / bits(24), rsvd(32),
)

query_flow_group_in = Prm(
    "query_flow_group_in",
    *CMD_IN_NO_UID, rsvd(64), "table_type" / bits(8), rsvd(32), "table_id" / bits(24),
    "group_id" / bits(32), rsvd(288),
)

query_flow_group_out = Prm(
    "query_flow_group_out",
    *CMD_OUT, rsvd(160), "start_flow_index" / bits(32), rsvd(32), "end_flow_index" / bits(32),
    rsvd(184), "match_criteria_enable" / bits(8), "match_criteria" / fte_match_param, rsvd(3584),
)

destroy_flow_group_in = Prm(
    "destroy_flow_group_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(32),
    "table_type" / bits(8), rsvd(32), "table_id" / bits(24), "group_id" / bits(32), rsvd(288),
)

destroy_flow_group_out = Prm("destroy_flow_group_out", *CMD_OUT, rsvd(64))

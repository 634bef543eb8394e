"""Flow tables and the choice of the root table.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

flow_table_context = Prm(
    "flow_table_context",
    "reformat_en" / bits(1), "decap_en" / bits(1), "sw_owner" / bits(1),
    "termination_table" / bits(1), "table_miss_action" / bits(4), "level" / bits(8),
    "rtc_valid" / bits(1), rsvd(7), "log_size" / bits(8), rsvd(8), "table_miss_id" / bits(24),
    rsvd(8), "lag_master_next_table_id" / bits(24), rsvd(96),
    "sw_owner_icm_root_1" / bits(64), "sw_owner_icm_root_0" / bits(64),
)

create_flow_table_in = Prm(
    "create_flow_table_in",
    *CMD_IN, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(32),
    "table_type" / bits(8), rsvd(56), "flow_table_context" / flow_table_context,
)

create_flow_table_out = Prm(
    "create_flow_table_out",
    *CMD_OUT, "icm_address_39_32" / bits(8), "table_id" / bits(24), "icm_address_31_0" / bits(32),
)

modify_flow_table_in = Prm(
    "modify_flow_table_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(16),
    "modify_field_select" / bits(16), "table_type" / bits(8), rsvd(32), "table_id" / bits(24),
    "flow_table_context" / flow_table_context,
)

modify_flow_table_out = Prm("modify_flow_table_out", *CMD_OUT, rsvd(64))

query_flow_table_in = Prm(
    "query_flow_table_in",
    *CMD_IN_NO_UID, rsvd(64), "table_type" / bits(8), rsvd(32), "table_id" / bits(24), rsvd(320),
)

query_flow_table_out = Prm(
    "query_flow_table_out",
    *CMD_OUT, rsvd(128), "flow_table_context" / flow_table_context,
)

destroy_flow_table_in = Prm(
    "destroy_flow_table_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(32),
    "table_type" / bits(8), rsvd(32), "table_id" / bits(24), rsvd(320),
)

destroy_flow_table_out = Prm("destroy_flow_table_out", *CMD_OUT, rsvd(64))

set_flow_table_root_in = Prm(
    "set_flow_table_root_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(32),
    "table_type" / bits(8), rsvd(7), "table_of_other_vport" / bits(1),
    "table_vport_number" / bits(16), rsvd(8), "table_id" / bits(24), rsvd(8),
    "underlay_qpn" / bits(24), "table_eswitch_owner_vhca_id_valid" / bits(1), rsvd(15),
    "table_eswitch_owner_vhca_id" / bits(16), rsvd(256),
)

set_flow_table_root_out = Prm("set_flow_table_root_out", *CMD_OUT, rsvd(64))

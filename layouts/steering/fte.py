"""Flow table entries (FTE): match values and actions.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, array, bits, octets, rsvd, tail
from layouts.steering.flow_match import fte_match_param

# Fields stand in rows, as in the PRM's figures.
# fmt: off

vlan = Prm("vlan", "ethtype" / bits(16), "prio" / bits(3), "cfi" / bits(1), "vid" / bits(12))

exe_aso_ctrl_flow_meter = Prm(
    "exe_aso_ctrl_flow_meter",
    "return_reg_id" / bits(4), "aso_type" / bits(4), rsvd(20), "action" / bits(1),
    "init_color" / bits(2), "meter_id" / bits(1),
)

execute_aso = Prm(
    "execute_aso",
    "valid" / bits(1), rsvd(7), "aso_object_id" / bits(24), "exe_aso_ctrl" / octets(4),
)

dest_format_struct = Prm(
    "dest_format_struct",
    "destination_type" / bits(8), "destination_id" / bits(24),
    "destination_eswitch_owner_vhca_id_valid" / bits(1), "packet_reformat" / bits(1), rsvd(6),
    "destination_table_type" / bits(8), "destination_eswitch_owner_vhca_id" / bits(16),
)

flow_counter_list = Prm("flow_counter_list", "flow_counter_id" / bits(32), rsvd(32))

extended_dest_format = Prm(
    "extended_dest_format",
    "destination_entry" / dest_format_struct, "packet_reformat_id" / bits(32), rsvd(32),
)

# Behind it are destinations (dest_format_struct), then counters (flow_counter_list), 8 bytes each.
# With extended_destination a destination has 16 bytes (extended_dest_format).
flow_context = Prm(
    "flow_context",
    "push_vlan" / vlan, "group_id" / bits(32), rsvd(8), "flow_tag" / bits(24), rsvd(16),
    "action" / bits(16), "extended_destination" / bits(1), "uplink_hairpin_en" / bits(1),
    "flow_source" / bits(2), "encrypt_decrypt_type" / bits(4), "destination_list_size" / bits(24),
    rsvd(8), "flow_counter_list_size" / bits(24), "packet_reformat_id" / bits(32),
    "modify_header_id" / bits(32), "push_vlan_2" / vlan, "encrypt_decrypt_obj_id" / bits(32),
    rsvd(192), "match_value" / fte_match_param, "execute_aso" / array(4, execute_aso), rsvd(1280),
    "destination" / tail(octets(8)),
)

set_fte_in = Prm(
    "set_fte_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(32),
    "table_type" / bits(8), rsvd(32), "table_id" / bits(24), "ignore_flow_level" / bits(1),
    rsvd(23), "modify_enable_mask" / bits(8), rsvd(32), "flow_index" / bits(32), rsvd(224),
    "flow_context" / flow_context,
)

set_fte_out = Prm("set_fte_out", *CMD_OUT, rsvd(64))

query_fte_in = Prm(
    "query_fte_in",
    *CMD_IN_NO_UID, rsvd(64), "table_type" / bits(8), rsvd(32), "table_id" / bits(24), rsvd(64),
    "flow_index" / bits(32), rsvd(224),
)

query_fte_out = Prm("query_fte_out", *CMD_OUT, rsvd(448), "flow_context" / flow_context)

delete_fte_in = Prm(
    "delete_fte_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(32),
    "table_type" / bits(8), rsvd(32), "table_id" / bits(24), rsvd(64), "flow_index" / bits(32),
    rsvd(224),
)

delete_fte_out = Prm("delete_fte_out", *CMD_OUT, rsvd(64))

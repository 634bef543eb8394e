"""Flow table entries (FTE): match values and actions.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut, VportIn
from layouts.prm import Prm, array, bits, nested, octets, rsvd, tail
from layouts.steering.flow_match import fte_match_param

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class vlan(Prm): ethtype = bits(16); prio = bits(3); cfi = bits(1); vid = bits(12)

class exe_aso_ctrl_flow_meter(Prm):
    return_reg_id = bits(4); aso_type = bits(4); _ = rsvd(20); action = bits(1)
    init_color = bits(2); meter_id = bits(1)

class execute_aso(Prm):
    valid = bits(1); _ = rsvd(7); aso_object_id = bits(24); exe_aso_ctrl = octets(4)

class dest_format_struct(Prm):
    destination_type = bits(8); destination_id = bits(24)
    destination_eswitch_owner_vhca_id_valid = bits(1); packet_reformat = bits(1); _ = rsvd(6)
    destination_table_type = bits(8); destination_eswitch_owner_vhca_id = bits(16)

class flow_counter_list(Prm): flow_counter_id = bits(32); _ = rsvd(32)

class extended_dest_format(Prm):
    destination_entry = nested(dest_format_struct); packet_reformat_id = bits(32); _ = rsvd(32)

# Behind it are destinations (dest_format_struct), then counters (flow_counter_list), 8 bytes each.
# With extended_destination a destination has 16 bytes (extended_dest_format).
class flow_context(Prm):
    push_vlan = nested(vlan); group_id = bits(32); _ = rsvd(8); flow_tag = bits(24)
    _ = rsvd(16); action = bits(16)
    extended_destination = bits(1); uplink_hairpin_en = bits(1); flow_source = bits(2)
    encrypt_decrypt_type = bits(4); destination_list_size = bits(24)
    _ = rsvd(8); flow_counter_list_size = bits(24); packet_reformat_id = bits(32)
    modify_header_id = bits(32); push_vlan_2 = nested(vlan); encrypt_decrypt_obj_id = bits(32)
    _ = rsvd(192); match_value = nested(fte_match_param)
    execute_aso = array(4, nested(execute_aso)); _ = rsvd(1280); destination = tail(octets(8))

class set_fte_in(VportIn):
    _ = rsvd(32)
    table_type = bits(8); _ = rsvd(32); table_id = bits(24)
    ignore_flow_level = bits(1); _ = rsvd(23); modify_enable_mask = bits(8); _ = rsvd(32)
    flow_index = bits(32); _ = rsvd(224); flow_context = nested(flow_context)

class set_fte_out(CmdOut): _ = rsvd(64)

class query_fte_in(CmdInNoUid):
    _ = rsvd(64); table_type = bits(8); _ = rsvd(32); table_id = bits(24); _ = rsvd(64)
    flow_index = bits(32); _ = rsvd(224)

class query_fte_out(CmdOut): _ = rsvd(448); flow_context = nested(flow_context)

class delete_fte_in(VportIn):
    _ = rsvd(32)
    table_type = bits(8); _ = rsvd(32); table_id = bits(24); _ = rsvd(64); flow_index = bits(32)
    _ = rsvd(224)

class delete_fte_out(CmdOut): _ = rsvd(64)

"""Steering entries (STE) of format 1 and 2, and their actions, which software writes into ICM.

In memory the mask of an entry precedes its tag. Single actions have 4 bytes, double ones 8.

Names and widths: core/steering/mlx5_ifc_dr_ste_v1.h and mlx5_ifc_dr.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, nested, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class SteMatchV1(Prm, abstract=True):
    entry_format = bits(8); counter_id = bits(24)
    miss_address_63_48 = bits(16); match_definer_ctx_idx = bits(8); miss_address_39_32 = bits(8)
    miss_address_31_6 = bits(26); _ = rsvd(1); match_polarity = bits(1); reparse = bits(1)
    _ = rsvd(3)
    next_table_base_63_48 = bits(16); hash_definer_ctx_idx = bits(8)
    next_table_base_39_32_size = bits(8)
    next_table_base_31_5_size = bits(27); hash_type = bits(2); hash_after_actions = bits(1)
    _ = rsvd(2)

class ste_match_bwc_v1(SteMatchV1):
    byte_mask = bits(16); next_entry_format = bits(1); mask_mode = bits(1); gvmi = bits(14)
    action = octets(8)

class ste_mask_and_match_v1(SteMatchV1): action = octets(12)

class ste_single_action_flow_tag_v1(Prm): action_id = bits(8); flow_tag = bits(24)

class ste_single_action_modify_list_v1(Prm):
    action_id = bits(8); num_of_modify_actions = bits(8); modify_actions_ptr = bits(16)

class ste_single_action_remove_header_v1(Prm):
    action_id = bits(8); _ = rsvd(2); start_anchor = bits(6); _ = rsvd(2); end_anchor = bits(6)
    _ = rsvd(4); decap = bits(1); vni_to_cqe = bits(1); qos_profile = bits(2)

class ste_single_action_remove_header_size_v1(Prm):
    action_id = bits(8); _ = rsvd(2); start_anchor = bits(6); outer_l4_remove = bits(1); _ = rsvd(1)
    start_offset = bits(7); _ = rsvd(1); remove_size = bits(6)

class ste_double_action_copy_v1(Prm):
    action_id = bits(8); destination_dw_offset = bits(8); _ = rsvd(2)
    destination_left_shifter = bits(6); _ = rsvd(2); destination_length = bits(6)
    _ = rsvd(8); source_dw_offset = bits(8); _ = rsvd(2); source_right_shifter = bits(6)
    _ = rsvd(8)

class ste_double_action_set_v1(Prm):
    action_id = bits(8); destination_dw_offset = bits(8); _ = rsvd(2)
    destination_left_shifter = bits(6); _ = rsvd(2); destination_length = bits(6)
    inline_data = bits(32)

class ste_double_action_add_v1(Prm):
    action_id = bits(8); destination_dw_offset = bits(8); _ = rsvd(2)
    destination_left_shifter = bits(6); _ = rsvd(2); destination_length = bits(6)
    add_value = bits(32)

class ste_double_action_insert_with_inline_v1(Prm):
    action_id = bits(8); _ = rsvd(2); start_anchor = bits(6); start_offset = bits(7); _ = rsvd(9)
    inline_data = bits(32)

class ste_double_action_insert_with_ptr_v1(Prm):
    action_id = bits(8); _ = rsvd(2); start_anchor = bits(6); start_offset = bits(7); size = bits(6)
    attributes = bits(3); pointer = bits(32)

class ste_aso_flow_meter_action(Prm):
    _ = rsvd(12); action = bits(1); initial_color = bits(2); line_id = bits(1)

class ste_double_action_aso_v1(Prm):
    action_id = bits(8); aso_context_number = bits(24)
    dest_reg_id = bits(2); change_ordering_tag = bits(1); aso_check_ordering = bits(1)
    aso_context_type = bits(4); _ = rsvd(8); flow_meter = nested(ste_aso_flow_meter_action)

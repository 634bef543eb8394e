# Written by scripts/gen-view-types from ste.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested, Octets
from layouts.prm import Prm

class SteMatchBwcV1(View):
    entry_format: int
    counter_id: int
    miss_address_63_48: int
    match_definer_ctx_idx: int
    miss_address_39_32: int
    miss_address_31_6: int
    match_polarity: int
    reparse: int
    next_table_base_63_48: int
    hash_definer_ctx_idx: int
    next_table_base_39_32_size: int
    next_table_base_31_5_size: int
    hash_type: int
    hash_after_actions: int
    byte_mask: int
    next_entry_format: int
    mask_mode: int
    gvmi: int
    action: Octets

ste_match_bwc_v1: Prm[SteMatchBwcV1]

class SteMaskAndMatchV1(View):
    entry_format: int
    counter_id: int
    miss_address_63_48: int
    match_definer_ctx_idx: int
    miss_address_39_32: int
    miss_address_31_6: int
    match_polarity: int
    reparse: int
    next_table_base_63_48: int
    hash_definer_ctx_idx: int
    next_table_base_39_32_size: int
    next_table_base_31_5_size: int
    hash_type: int
    hash_after_actions: int
    action: Octets

ste_mask_and_match_v1: Prm[SteMaskAndMatchV1]

class SteSingleActionFlowTagV1(View):
    action_id: int
    flow_tag: int

ste_single_action_flow_tag_v1: Prm[SteSingleActionFlowTagV1]

class SteSingleActionModifyListV1(View):
    action_id: int
    num_of_modify_actions: int
    modify_actions_ptr: int

ste_single_action_modify_list_v1: Prm[SteSingleActionModifyListV1]

class SteSingleActionRemoveHeaderV1(View):
    action_id: int
    start_anchor: int
    end_anchor: int
    decap: int
    vni_to_cqe: int
    qos_profile: int

ste_single_action_remove_header_v1: Prm[SteSingleActionRemoveHeaderV1]

class SteSingleActionRemoveHeaderSizeV1(View):
    action_id: int
    start_anchor: int
    outer_l4_remove: int
    start_offset: int
    remove_size: int

ste_single_action_remove_header_size_v1: Prm[SteSingleActionRemoveHeaderSizeV1]

class SteDoubleActionCopyV1(View):
    action_id: int
    destination_dw_offset: int
    destination_left_shifter: int
    destination_length: int
    source_dw_offset: int
    source_right_shifter: int

ste_double_action_copy_v1: Prm[SteDoubleActionCopyV1]

class SteDoubleActionSetV1(View):
    action_id: int
    destination_dw_offset: int
    destination_left_shifter: int
    destination_length: int
    inline_data: int

ste_double_action_set_v1: Prm[SteDoubleActionSetV1]

class SteDoubleActionAddV1(View):
    action_id: int
    destination_dw_offset: int
    destination_left_shifter: int
    destination_length: int
    add_value: int

ste_double_action_add_v1: Prm[SteDoubleActionAddV1]

class SteDoubleActionInsertWithInlineV1(View):
    action_id: int
    start_anchor: int
    start_offset: int
    inline_data: int

ste_double_action_insert_with_inline_v1: Prm[SteDoubleActionInsertWithInlineV1]

class SteDoubleActionInsertWithPtrV1(View):
    action_id: int
    start_anchor: int
    start_offset: int
    size: int
    attributes: int
    pointer: int

ste_double_action_insert_with_ptr_v1: Prm[SteDoubleActionInsertWithPtrV1]

class SteAsoFlowMeterAction(View):
    action: int
    initial_color: int
    line_id: int

ste_aso_flow_meter_action: Prm[SteAsoFlowMeterAction]

class SteDoubleActionAsoV1(View):
    action_id: int
    aso_context_number: int
    dest_reg_id: int
    change_ordering_tag: int
    aso_check_ordering: int
    aso_context_type: int
    flow_meter: Nested[SteAsoFlowMeterAction]

ste_double_action_aso_v1: Prm[SteDoubleActionAsoV1]

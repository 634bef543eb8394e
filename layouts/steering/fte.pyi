# Written by scripts/gen-view-types from fte.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested, Octets
from layouts.prm import Prm
from layouts.steering.flow_match import FteMatchParam

class Vlan(View):
    ethtype: int
    prio: int
    cfi: int
    vid: int

vlan: Prm[Vlan]

class ExeAsoCtrlFlowMeter(View):
    return_reg_id: int
    aso_type: int
    action: int
    init_color: int
    meter_id: int

exe_aso_ctrl_flow_meter: Prm[ExeAsoCtrlFlowMeter]

class ExecuteAso(View):
    valid: int
    aso_object_id: int
    exe_aso_ctrl: Octets

execute_aso: Prm[ExecuteAso]

class DestFormatStruct(View):
    destination_type: int
    destination_id: int
    destination_eswitch_owner_vhca_id_valid: int
    packet_reformat: int
    destination_table_type: int
    destination_eswitch_owner_vhca_id: int

dest_format_struct: Prm[DestFormatStruct]

class FlowCounterList(View):
    flow_counter_id: int

flow_counter_list: Prm[FlowCounterList]

class ExtendedDestFormat(View):
    destination_entry: Nested[DestFormatStruct]
    packet_reformat_id: int

extended_dest_format: Prm[ExtendedDestFormat]

class FlowContext(View):
    push_vlan: Nested[Vlan]
    group_id: int
    flow_tag: int
    action: int
    extended_destination: int
    uplink_hairpin_en: int
    flow_source: int
    encrypt_decrypt_type: int
    destination_list_size: int
    flow_counter_list_size: int
    packet_reformat_id: int
    modify_header_id: int
    push_vlan_2: Nested[Vlan]
    encrypt_decrypt_obj_id: int
    match_value: Nested[FteMatchParam]
    execute_aso: Items[ExecuteAso]
    destination: Items[bytes]

flow_context: Prm[FlowContext]

class SetFteIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    table_type: int
    table_id: int
    ignore_flow_level: int
    modify_enable_mask: int
    flow_index: int
    flow_context: Nested[FlowContext]

set_fte_in: Prm[SetFteIn]

class SetFteOut(View):
    status: int
    syndrome: int

set_fte_out: Prm[SetFteOut]

class QueryFteIn(View):
    opcode: int
    op_mod: int
    table_type: int
    table_id: int
    flow_index: int

query_fte_in: Prm[QueryFteIn]

class QueryFteOut(View):
    status: int
    syndrome: int
    flow_context: Nested[FlowContext]

query_fte_out: Prm[QueryFteOut]

class DeleteFteIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    table_type: int
    table_id: int
    flow_index: int

delete_fte_in: Prm[DeleteFteIn]

class DeleteFteOut(View):
    status: int
    syndrome: int

delete_fte_out: Prm[DeleteFteOut]

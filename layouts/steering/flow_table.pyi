# Written by scripts/gen-view-types from flow_table.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.prm import Prm

class FlowTableContext(View):
    reformat_en: int
    decap_en: int
    sw_owner: int
    termination_table: int
    table_miss_action: int
    level: int
    rtc_valid: int
    log_size: int
    table_miss_id: int
    lag_master_next_table_id: int
    sw_owner_icm_root_1: int
    sw_owner_icm_root_0: int

flow_table_context: Prm[FlowTableContext]

class CreateFlowTableIn(View):
    opcode: int
    uid: int
    op_mod: int
    other_vport: int
    vport_number: int
    table_type: int
    flow_table_context: Nested[FlowTableContext]

create_flow_table_in: Prm[CreateFlowTableIn]

class CreateFlowTableOut(View):
    status: int
    syndrome: int
    icm_address_39_32: int
    table_id: int
    icm_address_31_0: int

create_flow_table_out: Prm[CreateFlowTableOut]

class ModifyFlowTableIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    modify_field_select: int
    table_type: int
    table_id: int
    flow_table_context: Nested[FlowTableContext]

modify_flow_table_in: Prm[ModifyFlowTableIn]

class ModifyFlowTableOut(View):
    status: int
    syndrome: int

modify_flow_table_out: Prm[ModifyFlowTableOut]

class QueryFlowTableIn(View):
    opcode: int
    op_mod: int
    table_type: int
    table_id: int

query_flow_table_in: Prm[QueryFlowTableIn]

class QueryFlowTableOut(View):
    status: int
    syndrome: int
    flow_table_context: Nested[FlowTableContext]

query_flow_table_out: Prm[QueryFlowTableOut]

class DestroyFlowTableIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    table_type: int
    table_id: int

destroy_flow_table_in: Prm[DestroyFlowTableIn]

class DestroyFlowTableOut(View):
    status: int
    syndrome: int

destroy_flow_table_out: Prm[DestroyFlowTableOut]

class SetFlowTableRootIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    table_type: int
    table_of_other_vport: int
    table_vport_number: int
    table_id: int
    underlay_qpn: int
    table_eswitch_owner_vhca_id_valid: int
    table_eswitch_owner_vhca_id: int

set_flow_table_root_in: Prm[SetFlowTableRootIn]

class SetFlowTableRootOut(View):
    status: int
    syndrome: int

set_flow_table_root_out: Prm[SetFlowTableRootOut]

# Written by scripts/gen-view-types from flow_group.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.prm import Prm
from layouts.steering.flow_match import FteMatchParam

class CreateFlowGroupIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    table_type: int
    group_type: int
    table_id: int
    source_eswitch_owner_vhca_id_valid: int
    start_flow_index: int
    end_flow_index: int
    match_definer_id: int
    match_criteria_enable: int
    match_criteria: Nested[FteMatchParam]

create_flow_group_in: Prm[CreateFlowGroupIn]

class CreateFlowGroupOut(View):
    status: int
    syndrome: int
    group_id: int

create_flow_group_out: Prm[CreateFlowGroupOut]

class QueryFlowGroupIn(View):
    opcode: int
    op_mod: int
    table_type: int
    table_id: int
    group_id: int

query_flow_group_in: Prm[QueryFlowGroupIn]

class QueryFlowGroupOut(View):
    status: int
    syndrome: int
    start_flow_index: int
    end_flow_index: int
    match_criteria_enable: int
    match_criteria: Nested[FteMatchParam]

query_flow_group_out: Prm[QueryFlowGroupOut]

class DestroyFlowGroupIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    table_type: int
    table_id: int
    group_id: int

destroy_flow_group_in: Prm[DestroyFlowGroupIn]

class DestroyFlowGroupOut(View):
    status: int
    syndrome: int

destroy_flow_group_out: Prm[DestroyFlowGroupOut]

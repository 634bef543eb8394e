# Written by scripts/gen-view-types from scheduling.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.prm import Prm

class SetPpRateLimitContext(View):
    rate_limit: int
    burst_upper_bound: int
    typical_packet_size: int

set_pp_rate_limit_context: Prm[SetPpRateLimitContext]

class SetPpRateLimitIn(View):
    opcode: int
    uid: int
    op_mod: int
    rate_limit_index: int
    ctx: Nested[SetPpRateLimitContext]

set_pp_rate_limit_in: Prm[SetPpRateLimitIn]

class SetPpRateLimitOut(View):
    status: int
    syndrome: int

set_pp_rate_limit_out: Prm[SetPpRateLimitOut]

class SchedulingContext(View):
    element_type: int
    element_attributes: int
    parent_element_id: int
    bw_share: int
    max_average_bw: int

scheduling_context: Prm[SchedulingContext]

class SchedElem(View):
    modify_field_select: int
    scheduling_hierarchy: int
    sched_context: Nested[SchedulingContext]

sched_elem: Prm[SchedElem]

class CreateSchedulingElementIn(View):
    opcode: int
    op_mod: int
    scheduling_hierarchy: int
    scheduling_context: Nested[SchedulingContext]

create_scheduling_element_in: Prm[CreateSchedulingElementIn]

class CreateSchedulingElementOut(View):
    status: int
    syndrome: int
    scheduling_element_id: int

create_scheduling_element_out: Prm[CreateSchedulingElementOut]

class ModifySchedulingElementIn(View):
    opcode: int
    op_mod: int
    scheduling_hierarchy: int
    scheduling_element_id: int
    modify_bitmask: int
    scheduling_context: Nested[SchedulingContext]

modify_scheduling_element_in: Prm[ModifySchedulingElementIn]

class ModifySchedulingElementOut(View):
    status: int
    syndrome: int

modify_scheduling_element_out: Prm[ModifySchedulingElementOut]

class QuerySchedulingElementIn(View):
    opcode: int
    op_mod: int
    scheduling_hierarchy: int
    scheduling_element_id: int

query_scheduling_element_in: Prm[QuerySchedulingElementIn]

class QuerySchedulingElementOut(View):
    status: int
    syndrome: int
    scheduling_context: Nested[SchedulingContext]

query_scheduling_element_out: Prm[QuerySchedulingElementOut]

class DestroySchedulingElementIn(View):
    opcode: int
    op_mod: int
    scheduling_hierarchy: int
    scheduling_element_id: int

destroy_scheduling_element_in: Prm[DestroySchedulingElementIn]

class DestroySchedulingElementOut(View):
    status: int
    syndrome: int

destroy_scheduling_element_out: Prm[DestroySchedulingElementOut]

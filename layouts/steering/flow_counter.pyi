# Written by scripts/gen-view-types from flow_counter.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items
from layouts.function.vport import TrafficCounter
from layouts.prm import Prm

class AllocFlowCounterIn(View):
    opcode: int
    op_mod: int
    flow_counter_bulk_log_size: int
    flow_counter_bulk: int

alloc_flow_counter_in: Prm[AllocFlowCounterIn]

class AllocFlowCounterOut(View):
    status: int
    syndrome: int
    flow_counter_id: int

alloc_flow_counter_out: Prm[AllocFlowCounterOut]

class QueryFlowCounterIn(View):
    opcode: int
    op_mod: int
    mkey: int
    address: int
    clear: int
    dump_to_memory: int
    num_of_counters: int
    flow_counter_id: int

query_flow_counter_in: Prm[QueryFlowCounterIn]

class QueryFlowCounterOut(View):
    status: int
    syndrome: int
    flow_statistics: Items[TrafficCounter]

query_flow_counter_out: Prm[QueryFlowCounterOut]

class DeallocFlowCounterIn(View):
    opcode: int
    op_mod: int
    flow_counter_id: int

dealloc_flow_counter_in: Prm[DeallocFlowCounterIn]

class DeallocFlowCounterOut(View):
    status: int
    syndrome: int

dealloc_flow_counter_out: Prm[DeallocFlowCounterOut]

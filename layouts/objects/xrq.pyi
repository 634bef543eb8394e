# Written by scripts/gen-view-types from xrq.py; a test fails when it is stale.

from typing import Final

from layouts.codec import View
from layouts.fields import Nested
from layouts.objects.srq import Wq
from layouts.prm import Prm

TOPOLOGY_TAG_MATCHING: Final = 1
OFFLOAD_RNDV: Final = 1

class TagMatchingTopologyContext(View):
    log_matching_list_sz: int
    append_next_index: int
    sw_phase_cnt: int
    hw_phase_cnt: int

tag_matching_topology_context: Prm[TagMatchingTopologyContext]

class Xrqc(View):
    state: int
    rlkey: int
    topology: int
    offload: int
    user_index: int
    cqn: int
    dc: int
    tag_matching_topology_context: Nested[TagMatchingTopologyContext]
    wq: Nested[Wq]

xrqc: Prm[Xrqc]

class CreateXrqIn(View):
    opcode: int
    uid: int
    op_mod: int
    xrq_context: Nested[Xrqc]

create_xrq_in: Prm[CreateXrqIn]

class CreateXrqOut(View):
    status: int
    syndrome: int
    xrqn: int

create_xrq_out: Prm[CreateXrqOut]

class QueryXrqIn(View):
    opcode: int
    op_mod: int
    xrqn: int

query_xrq_in: Prm[QueryXrqIn]

class QueryXrqOut(View):
    status: int
    syndrome: int
    xrq_context: Nested[Xrqc]

query_xrq_out: Prm[QueryXrqOut]

class DestroyXrqIn(View):
    opcode: int
    uid: int
    op_mod: int
    xrqn: int

destroy_xrq_in: Prm[DestroyXrqIn]

class DestroyXrqOut(View):
    status: int
    syndrome: int

destroy_xrq_out: Prm[DestroyXrqOut]

class ArmXrqIn(View):
    opcode: int
    op_mod: int
    xrqn: int
    lwm: int

arm_xrq_in: Prm[ArmXrqIn]

class ArmXrqOut(View):
    status: int
    syndrome: int

arm_xrq_out: Prm[ArmXrqOut]

# Written by scripts/gen-view-types from rq.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.objects.srq import Wq
from layouts.prm import Prm

class Rqc(View):
    rlky: int
    delay_drop_en: int
    scatter_fcs: int
    vsd: int
    mem_rq_type: int
    state: int
    flush_in_error_en: int
    hairpin: int
    ts_format: int
    user_index: int
    cqn: int
    counter_set_id: int
    rmpn: int
    hairpin_peer_sq: int
    hairpin_peer_vhca: int
    shampo_no_match_alignment_granularity: int
    shampo_match_criteria_type: int
    reservation_timeout: int
    wq: Nested[Wq]

rqc: Prm[Rqc]

class CreateRqIn(View):
    opcode: int
    uid: int
    op_mod: int
    ctx: Nested[Rqc]

create_rq_in: Prm[CreateRqIn]

class CreateRqOut(View):
    status: int
    syndrome: int
    rqn: int

create_rq_out: Prm[CreateRqOut]

class ModifyRqIn(View):
    opcode: int
    uid: int
    op_mod: int
    rq_state: int
    rqn: int
    modify_bitmask: int
    ctx: Nested[Rqc]

modify_rq_in: Prm[ModifyRqIn]

class ModifyRqOut(View):
    status: int
    syndrome: int

modify_rq_out: Prm[ModifyRqOut]

class QueryRqIn(View):
    opcode: int
    op_mod: int
    rqn: int

query_rq_in: Prm[QueryRqIn]

class QueryRqOut(View):
    status: int
    syndrome: int
    rq_context: Nested[Rqc]

query_rq_out: Prm[QueryRqOut]

class DestroyRqIn(View):
    opcode: int
    uid: int
    op_mod: int
    rqn: int

destroy_rq_in: Prm[DestroyRqIn]

class DestroyRqOut(View):
    status: int
    syndrome: int

destroy_rq_out: Prm[DestroyRqOut]

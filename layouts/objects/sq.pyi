# Written by scripts/gen-view-types from sq.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.objects.srq import Wq
from layouts.prm import Prm

class Sqc(View):
    rlky: int
    cd_master: int
    fre: int
    flush_in_error_en: int
    allow_multi_pkt_send_wqe: int
    min_wqe_inline_mode: int
    state: int
    reg_umr: int
    allow_swp: int
    hairpin: int
    non_wire: int
    ts_format: int
    user_index: int
    cqn: int
    hairpin_peer_rq: int
    hairpin_peer_vhca: int
    ts_cqe_to_dest_cqn: int
    packet_pacing_rate_limit_index: int
    tis_lst_sz: int
    qos_queue_group_id: int
    tis_num_0: int
    wq: Nested[Wq]

sqc: Prm[Sqc]

class CreateSqIn(View):
    opcode: int
    uid: int
    op_mod: int
    ctx: Nested[Sqc]

create_sq_in: Prm[CreateSqIn]

class CreateSqOut(View):
    status: int
    syndrome: int
    sqn: int

create_sq_out: Prm[CreateSqOut]

class ModifySqIn(View):
    opcode: int
    uid: int
    op_mod: int
    sq_state: int
    sqn: int
    modify_bitmask: int
    ctx: Nested[Sqc]

modify_sq_in: Prm[ModifySqIn]

class ModifySqOut(View):
    status: int
    syndrome: int

modify_sq_out: Prm[ModifySqOut]

class QuerySqIn(View):
    opcode: int
    op_mod: int
    sqn: int

query_sq_in: Prm[QuerySqIn]

class QuerySqOut(View):
    status: int
    syndrome: int
    sq_context: Nested[Sqc]

query_sq_out: Prm[QuerySqOut]

class DestroySqIn(View):
    opcode: int
    uid: int
    op_mod: int
    sqn: int

destroy_sq_in: Prm[DestroySqIn]

class DestroySqOut(View):
    status: int
    syndrome: int

destroy_sq_out: Prm[DestroySqOut]

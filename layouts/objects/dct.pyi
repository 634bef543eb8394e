# Written by scripts/gen-view-types from dct.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.prm import Prm

class Dctc(View):
    state: int
    user_index: int
    cqn: int
    counter_set_id: int
    atomic_mode: int
    rre: int
    rwe: int
    rae: int
    atomic_like_write_en: int
    latency_sensitive: int
    rlky: int
    free_ar: int
    cs_res: int
    min_rnr_nak: int
    srqn_xrqn: int
    pd: int
    tclass: int
    flow_label: int
    dc_access_key: int
    mtu: int
    port: int
    pkey_index: int
    my_addr_index: int
    hop_limit: int
    dc_access_key_violation_count: int
    dei_cfi: int
    eth_prio: int
    ecn: int
    dscp: int
    ece: int

dctc: Prm[Dctc]

class CreateDctIn(View):
    opcode: int
    uid: int
    op_mod: int
    dct_context_entry: Nested[Dctc]

create_dct_in: Prm[CreateDctIn]

class CreateDctOut(View):
    status: int
    syndrome: int
    dctn: int
    ece: int

create_dct_out: Prm[CreateDctOut]

class QueryDctIn(View):
    opcode: int
    op_mod: int
    dctn: int

query_dct_in: Prm[QueryDctIn]

class QueryDctOut(View):
    status: int
    syndrome: int
    dct_context_entry: Nested[Dctc]

query_dct_out: Prm[QueryDctOut]

class DrainDctIn(View):
    opcode: int
    uid: int
    op_mod: int
    dctn: int

drain_dct_in: Prm[DrainDctIn]

class DrainDctOut(View):
    status: int
    syndrome: int

drain_dct_out: Prm[DrainDctOut]

class DestroyDctIn(View):
    opcode: int
    uid: int
    op_mod: int
    dctn: int

destroy_dct_in: Prm[DestroyDctIn]

class DestroyDctOut(View):
    status: int
    syndrome: int

destroy_dct_out: Prm[DestroyDctOut]

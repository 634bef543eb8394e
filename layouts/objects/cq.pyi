# Written by scripts/gen-view-types from cq.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm

class Cqc(View):
    status: int
    dbr_umem_valid: int
    apu_cq: int
    cqe_sz: int
    cc: int
    scqe_break_moderation_en: int
    oi: int
    cq_period_mode: int
    cqe_comp_en: int
    mini_cqe_res_format: int
    st: int
    cqe_compression_layout: int
    dbr_umem_id: int
    page_offset: int
    mini_cqe_res_format_ext: int
    log_cq_size: int
    uar_page: int
    cq_period: int
    cq_max_count: int
    c_eqn_or_apu_element: int
    log_page_size: int
    last_notified_index: int
    last_solicit_index: int
    consumer_counter: int
    producer_counter: int
    dbr_addr: int

cqc: Prm[Cqc]

class CreateCqIn(View):
    opcode: int
    uid: int
    op_mod: int
    cq_context: Nested[Cqc]
    cq_umem_offset: int
    cq_umem_id: int
    cq_umem_valid: int
    pas: Items[int]

create_cq_in: Prm[CreateCqIn]

class CreateCqOut(View):
    status: int
    syndrome: int
    cqn: int

create_cq_out: Prm[CreateCqOut]

class QueryCqIn(View):
    opcode: int
    op_mod: int
    cqn: int

query_cq_in: Prm[QueryCqIn]

class QueryCqOut(View):
    status: int
    syndrome: int
    cq_context: Nested[Cqc]
    pas: Items[int]

query_cq_out: Prm[QueryCqOut]

class ModifyCqIn(View):
    opcode: int
    uid: int
    op_mod: int
    cqn: int
    modify_field_select_resize_field_select: int
    cq_context: Nested[Cqc]
    cq_umem_offset: int
    cq_umem_id: int
    cq_umem_valid: int
    pas: Items[int]

modify_cq_in: Prm[ModifyCqIn]

class ModifyCqOut(View):
    status: int
    syndrome: int

modify_cq_out: Prm[ModifyCqOut]

class DestroyCqIn(View):
    opcode: int
    uid: int
    op_mod: int
    cqn: int

destroy_cq_in: Prm[DestroyCqIn]

class DestroyCqOut(View):
    status: int
    syndrome: int

destroy_cq_out: Prm[DestroyCqOut]

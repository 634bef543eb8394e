# Written by scripts/gen-view-types from srq.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm

class Srqc(View):
    state: int
    log_srq_size: int
    wq_signature: int
    cont_srq: int
    rlky: int
    log_rq_stride: int
    xrcd: int
    page_offset: int
    cqn: int
    log_page_size: int
    pd: int
    lwm: int
    wqe_cnt: int
    dbr_addr: int

srqc: Prm[Srqc]

class CreateSrqIn(View):
    opcode: int
    uid: int
    op_mod: int
    srq_context_entry: Nested[Srqc]
    pas: Items[int]

create_srq_in: Prm[CreateSrqIn]

class CreateSrqOut(View):
    status: int
    syndrome: int
    srqn: int

create_srq_out: Prm[CreateSrqOut]

class QuerySrqIn(View):
    opcode: int
    op_mod: int
    srqn: int

query_srq_in: Prm[QuerySrqIn]

class QuerySrqOut(View):
    status: int
    syndrome: int
    srq_context_entry: Nested[Srqc]
    pas: Items[int]

query_srq_out: Prm[QuerySrqOut]

class DestroySrqIn(View):
    opcode: int
    uid: int
    op_mod: int
    srqn: int

destroy_srq_in: Prm[DestroySrqIn]

class DestroySrqOut(View):
    status: int
    syndrome: int

destroy_srq_out: Prm[DestroySrqOut]

class ArmRqIn(View):
    opcode: int
    uid: int
    op_mod: int
    srq_number: int
    lwm: int

arm_rq_in: Prm[ArmRqIn]

class ArmRqOut(View):
    status: int
    syndrome: int

arm_rq_out: Prm[ArmRqOut]

class XrcSrqc(View):
    state: int
    log_xrc_srq_size: int
    wq_signature: int
    cont_srq: int
    rlky: int
    basic_cyclic_rcv_wqe: int
    log_rq_stride: int
    xrcd: int
    page_offset: int
    dbr_umem_valid: int
    cqn: int
    user_index_equal_xrc_srqn: int
    log_page_size: int
    user_index: int
    pd: int
    lwm: int
    wqe_cnt: int
    db_record_addr_h: int
    db_record_addr_l: int

xrc_srqc: Prm[XrcSrqc]

class CreateXrcSrqIn(View):
    opcode: int
    uid: int
    op_mod: int
    xrc_srq_context_entry: Nested[XrcSrqc]
    xrc_srq_umem_valid: int
    pas: Items[int]

create_xrc_srq_in: Prm[CreateXrcSrqIn]

class CreateXrcSrqOut(View):
    status: int
    syndrome: int
    xrc_srqn: int

create_xrc_srq_out: Prm[CreateXrcSrqOut]

class QueryXrcSrqIn(View):
    opcode: int
    op_mod: int
    xrc_srqn: int

query_xrc_srq_in: Prm[QueryXrcSrqIn]

class QueryXrcSrqOut(View):
    status: int
    syndrome: int
    xrc_srq_context_entry: Nested[XrcSrqc]
    pas: Items[int]

query_xrc_srq_out: Prm[QueryXrcSrqOut]

class DestroyXrcSrqIn(View):
    opcode: int
    uid: int
    op_mod: int
    xrc_srqn: int

destroy_xrc_srq_in: Prm[DestroyXrcSrqIn]

class DestroyXrcSrqOut(View):
    status: int
    syndrome: int

destroy_xrc_srq_out: Prm[DestroyXrcSrqOut]

class ArmXrcSrqIn(View):
    opcode: int
    uid: int
    op_mod: int
    xrc_srqn: int
    lwm: int

arm_xrc_srq_in: Prm[ArmXrcSrqIn]

class ArmXrcSrqOut(View):
    status: int
    syndrome: int

arm_xrc_srq_out: Prm[ArmXrcSrqOut]

class Wq(View):
    wq_type: int
    wq_signature: int
    end_padding_mode: int
    cd_slave: int
    hds_skip_first_sge: int
    log2_hds_buf_size: int
    page_offset: int
    lwm: int
    pd: int
    uar_page: int
    dbr_addr: int
    hw_counter: int
    sw_counter: int
    log_wq_stride: int
    log_wq_pg_sz: int
    log_wq_sz: int
    dbr_umem_valid: int
    wq_umem_valid: int
    log_hairpin_num_packets: int
    log_hairpin_data_sz: int
    log_wqe_num_of_strides: int
    two_byte_shift_en: int
    log_wqe_stride_size: int
    dbr_umem_id: int
    wq_umem_id: int
    wq_umem_offset: int
    headers_mkey: int
    shampo_enable: int
    log_reservation_size: int
    log_max_num_of_packets_per_reservation: int
    log_headers_entry_size: int
    log_headers_buffer_entry_num: int
    pas: Items[int]

wq: Prm[Wq]

class Rmpc(View):
    state: int
    basic_cyclic_rcv_wqe: int
    wq: Nested[Wq]

rmpc: Prm[Rmpc]

class RmpBitmask(View):
    lwm: int

rmp_bitmask: Prm[RmpBitmask]

class CreateRmpIn(View):
    opcode: int
    uid: int
    op_mod: int
    ctx: Nested[Rmpc]

create_rmp_in: Prm[CreateRmpIn]

class CreateRmpOut(View):
    status: int
    syndrome: int
    rmpn: int

create_rmp_out: Prm[CreateRmpOut]

class ModifyRmpIn(View):
    opcode: int
    uid: int
    op_mod: int
    rmp_state: int
    rmpn: int
    bitmask: Nested[RmpBitmask]
    ctx: Nested[Rmpc]

modify_rmp_in: Prm[ModifyRmpIn]

class ModifyRmpOut(View):
    status: int
    syndrome: int

modify_rmp_out: Prm[ModifyRmpOut]

class QueryRmpIn(View):
    opcode: int
    op_mod: int
    rmpn: int

query_rmp_in: Prm[QueryRmpIn]

class QueryRmpOut(View):
    status: int
    syndrome: int
    rmp_context: Nested[Rmpc]

query_rmp_out: Prm[QueryRmpOut]

class DestroyRmpIn(View):
    opcode: int
    uid: int
    op_mod: int
    rmpn: int

destroy_rmp_in: Prm[DestroyRmpIn]

class DestroyRmpOut(View):
    status: int
    syndrome: int

destroy_rmp_out: Prm[DestroyRmpOut]

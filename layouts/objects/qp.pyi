# Written by scripts/gen-view-types from qp.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested, Octets
from layouts.prm import Prm

class Ads(View):
    fl: int
    free_ar: int
    pkey_index: int
    plane_index: int
    grh: int
    mlid: int
    rlid: int
    ack_timeout: int
    src_addr_index: int
    stat_rate: int
    hop_limit: int
    tclass: int
    flow_label: int
    rgid_rip: Octets
    f_dscp: int
    f_ecn: int
    f_eth_prio: int
    ecn: int
    dscp: int
    udp_sport: int
    dei_cfi: int
    eth_prio: int
    sl: int
    vhca_port_num: int
    rmac_47_32: int
    rmac_31_0: int

ads: Prm[Ads]

class Qpc(View):
    state: int
    lag_tx_port_affinity: int
    st: int
    isolate_vl_tc: int
    pm_state: int
    req_e2e_credit_mode: int
    offload_type: int
    end_padding_mode: int
    wq_signature: int
    block_lb_mc: int
    atomic_like_write_en: int
    latency_sensitive: int
    drain_sigerr: int
    pd: int
    mtu: int
    log_msg_max: int
    log_rq_size: int
    log_rq_stride: int
    no_sq: int
    log_sq_size: int
    retry_mode: int
    ts_format: int
    rlky: int
    ulp_stateless_offload_mode: int
    counter_set_id: int
    uar_page: int
    send_dbr_mode: int
    user_index: int
    log_page_size: int
    remote_qpn: int
    primary_address_path: Nested[Ads]
    secondary_address_path: Nested[Ads]
    log_ack_req_freq: int
    log_sra_max: int
    retry_count: int
    rnr_retry: int
    fre: int
    cur_rnr_retry: int
    cur_retry_count: int
    next_send_psn: int
    log_num_dci_stream_channels: int
    cqn_snd: int
    log_num_dci_errored_streams: int
    deth_sqpn: int
    last_acked_psn: int
    ssn: int
    log_rra_max: int
    atomic_mode: int
    rre: int
    rwe: int
    rae: int
    page_offset: int
    cd_slave_receive: int
    cd_slave_send: int
    cd_master: int
    min_rnr_nak: int
    next_rcv_psn: int
    xrcd: int
    cqn_rcv: int
    dbr_addr: int
    q_key: int
    rq_type: int
    srqn_rmpn_xrqn: int
    rmsn: int
    hw_sq_wqebb_counter: int
    sw_sq_wqebb_counter: int
    hw_rq_counter: int
    sw_rq_counter: int
    cgs: int
    cs_req: int
    cs_res: int
    dc_access_key: int
    dbr_umem_valid: int
    dbr_umem_id: int

qpc: Prm[Qpc]

class CqeErrorSyndrome(View):
    hw_error_syndrome: int
    hw_syndrome_type: int
    vendor_error_syndrome: int
    syndrome: int

cqe_error_syndrome: Prm[CqeErrorSyndrome]

class QpcExt(View):
    mmo: int
    dci_stream_channel_id: int
    qos_queue_group_id_requester: int
    qos_queue_group_id_responder: int
    error_syndrome: Nested[CqeErrorSyndrome]

qpc_ext: Prm[QpcExt]

class CreateQpIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpc_ext: int
    input_qpn: int
    opt_param_mask: int
    ece: int
    qpc: Nested[Qpc]
    wq_umem_offset: int
    wq_umem_id: int
    wq_umem_valid: int
    pas: Items[int]

create_qp_in: Prm[CreateQpIn]

class CreateQpOut(View):
    status: int
    syndrome: int
    qpn: int
    ece: int

create_qp_out: Prm[CreateQpOut]

class DestroyQpIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int

destroy_qp_in: Prm[DestroyQpIn]

class DestroyQpOut(View):
    status: int
    syndrome: int

destroy_qp_out: Prm[DestroyQpOut]

class QueryQpIn(View):
    opcode: int
    op_mod: int
    qpc_ext: int
    qpn: int

query_qp_in: Prm[QueryQpIn]

class QueryQpOut(View):
    status: int
    syndrome: int
    opt_param_mask: int
    ece: int
    qpc: Nested[Qpc]
    pas: Items[int]

query_qp_out: Prm[QueryQpOut]

class Rst2initQpIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int
    opt_param_mask: int
    ece: int
    qpc: Nested[Qpc]

rst2init_qp_in: Prm[Rst2initQpIn]

class Rst2initQpOut(View):
    status: int
    syndrome: int
    ece: int

rst2init_qp_out: Prm[Rst2initQpOut]

class Init2initQpIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpc_ext: int
    qpn: int
    opt_param_mask: int
    ece: int
    qpc: Nested[Qpc]
    opt_param_mask_95_32: int
    qpc_data_ext: Octets

init2init_qp_in: Prm[Init2initQpIn]

class Init2initQpOut(View):
    status: int
    syndrome: int
    ece: int

init2init_qp_out: Prm[Init2initQpOut]

class Init2rtrQpIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int
    opt_param_mask: int
    ece: int
    qpc: Nested[Qpc]

init2rtr_qp_in: Prm[Init2rtrQpIn]

class Init2rtrQpOut(View):
    status: int
    syndrome: int
    ece: int

init2rtr_qp_out: Prm[Init2rtrQpOut]

class Rtr2rtsQpIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int
    opt_param_mask: int
    ece: int
    qpc: Nested[Qpc]

rtr2rts_qp_in: Prm[Rtr2rtsQpIn]

class Rtr2rtsQpOut(View):
    status: int
    syndrome: int
    ece: int

rtr2rts_qp_out: Prm[Rtr2rtsQpOut]

class Rts2rtsQpIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpc_ext: int
    qpn: int
    opt_param_mask: int
    ece: int
    qpc: Nested[Qpc]
    opt_param_mask_95_32: int
    qpc_data_ext: Octets

rts2rts_qp_in: Prm[Rts2rtsQpIn]

class Rts2rtsQpOut(View):
    status: int
    syndrome: int
    ece: int

rts2rts_qp_out: Prm[Rts2rtsQpOut]

class Sqerr2rtsQpIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int
    opt_param_mask: int
    qpc: Nested[Qpc]

sqerr2rts_qp_in: Prm[Sqerr2rtsQpIn]

class Sqerr2rtsQpOut(View):
    status: int
    syndrome: int

sqerr2rts_qp_out: Prm[Sqerr2rtsQpOut]

class Sqd2rtsQpIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int
    opt_param_mask: int
    qpc: Nested[Qpc]

sqd2rts_qp_in: Prm[Sqd2rtsQpIn]

class Sqd2rtsQpOut(View):
    status: int
    syndrome: int

sqd2rts_qp_out: Prm[Sqd2rtsQpOut]

class Qp2errIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int

qp_2err_in: Prm[Qp2errIn]

class Qp2errOut(View):
    status: int
    syndrome: int

qp_2err_out: Prm[Qp2errOut]

class Qp2rstIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int

qp_2rst_in: Prm[Qp2rstIn]

class Qp2rstOut(View):
    status: int
    syndrome: int

qp_2rst_out: Prm[Qp2rstOut]

class AttachToMcgIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int
    multicast_gid: Octets

attach_to_mcg_in: Prm[AttachToMcgIn]

class AttachToMcgOut(View):
    status: int
    syndrome: int

attach_to_mcg_out: Prm[AttachToMcgOut]

class DetachFromMcgIn(View):
    opcode: int
    uid: int
    op_mod: int
    qpn: int
    multicast_gid: Octets

detach_from_mcg_in: Prm[DetachFromMcgIn]

class DetachFromMcgOut(View):
    status: int
    syndrome: int

detach_from_mcg_out: Prm[DetachFromMcgOut]

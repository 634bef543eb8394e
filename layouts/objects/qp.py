"""Queue pairs: address path (ads), qpc, CREATE/QUERY/DESTROY_QP and the state transitions.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, octets, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class ads(Prm):
    fl = bits(1); free_ar = bits(1); _ = rsvd(14); pkey_index = bits(16)
    plane_index = bits(8); grh = bits(1); mlid = bits(7); rlid = bits(16)
    ack_timeout = bits(5); _ = rsvd(3); src_addr_index = bits(8); _ = rsvd(4); stat_rate = bits(4)
    hop_limit = bits(8); _ = rsvd(4); tclass = bits(8); flow_label = bits(20); rgid_rip = octets(16)
    _ = rsvd(4); f_dscp = bits(1); f_ecn = bits(1); _ = rsvd(1); f_eth_prio = bits(1); ecn = bits(2)
    dscp = bits(6); udp_sport = bits(16)
    dei_cfi = bits(1); eth_prio = bits(3); sl = bits(4); vhca_port_num = bits(8)
    rmac_47_32 = bits(16); rmac_31_0 = bits(32)

class qpc(Prm):
    state = bits(4); lag_tx_port_affinity = bits(4); st = bits(8); _ = rsvd(2)
    isolate_vl_tc = bits(1); pm_state = bits(2); _ = rsvd(1); req_e2e_credit_mode = bits(2)
    offload_type = bits(4); end_padding_mode = bits(2); _ = rsvd(2)
    wq_signature = bits(1); block_lb_mc = bits(1); atomic_like_write_en = bits(1)
    latency_sensitive = bits(1); _ = rsvd(1); drain_sigerr = bits(1); _ = rsvd(2); pd = bits(24)
    mtu = bits(3); log_msg_max = bits(5); _ = rsvd(1); log_rq_size = bits(4)
    log_rq_stride = bits(3); no_sq = bits(1); log_sq_size = bits(4); _ = rsvd(1)
    retry_mode = bits(2); ts_format = bits(2); _ = rsvd(1); rlky = bits(1)
    ulp_stateless_offload_mode = bits(4); counter_set_id = bits(8); uar_page = bits(24)
    send_dbr_mode = bits(2); _ = rsvd(6); user_index = bits(24)
    _ = rsvd(3); log_page_size = bits(5); remote_qpn = bits(24); primary_address_path = nested(ads)
    secondary_address_path = nested(ads)
    log_ack_req_freq = bits(4); _ = rsvd(4); log_sra_max = bits(3); _ = rsvd(2)
    retry_count = bits(3); rnr_retry = bits(3); _ = rsvd(1); fre = bits(1); cur_rnr_retry = bits(3)
    cur_retry_count = bits(3); _ = rsvd(45); next_send_psn = bits(24)
    _ = rsvd(3); log_num_dci_stream_channels = bits(5); cqn_snd = bits(24)
    _ = rsvd(3); log_num_dci_errored_streams = bits(5); deth_sqpn = bits(24)
    _ = rsvd(40); last_acked_psn = bits(24); _ = rsvd(8); ssn = bits(24)
    _ = rsvd(8); log_rra_max = bits(3); _ = rsvd(1); atomic_mode = bits(4); rre = bits(1)
    rwe = bits(1); rae = bits(1); _ = rsvd(1); page_offset = bits(6); _ = rsvd(3)
    cd_slave_receive = bits(1); cd_slave_send = bits(1); cd_master = bits(1)
    _ = rsvd(3); min_rnr_nak = bits(5); next_rcv_psn = bits(24); _ = rsvd(8); xrcd = bits(24)
    _ = rsvd(8); cqn_rcv = bits(24); dbr_addr = bits(64); q_key = bits(32)
    _ = rsvd(5); rq_type = bits(3); srqn_rmpn_xrqn = bits(24); _ = rsvd(8); rmsn = bits(24)
    hw_sq_wqebb_counter = bits(16); sw_sq_wqebb_counter = bits(16); hw_rq_counter = bits(32)
    sw_rq_counter = bits(32); _ = rsvd(47); cgs = bits(1); cs_req = bits(8); cs_res = bits(8)
    dc_access_key = bits(64); _ = rsvd(3); dbr_umem_valid = bits(1); _ = rsvd(156)
    dbr_umem_id = bits(32)

class cqe_error_syndrome(Prm):
    hw_error_syndrome = bits(8); hw_syndrome_type = bits(4); _ = rsvd(4)
    vendor_error_syndrome = bits(8); syndrome = bits(8)

class qpc_ext(Prm):
    _ = rsvd(2); mmo = bits(1); _ = rsvd(13); dci_stream_channel_id = bits(16)
    qos_queue_group_id_requester = bits(32); qos_queue_group_id_responder = bits(32)
    error_syndrome = nested(cqe_error_syndrome); _ = rsvd(1408)

_QPC_EXT_BYTES = qpc_ext.size

class create_qp_in(CmdIn):
    qpc_ext = bits(1); _ = rsvd(7); input_qpn = bits(24); _ = rsvd(32); opt_param_mask = bits(32)
    ece = bits(32); qpc = nested(qpc); wq_umem_offset = bits(64); wq_umem_id = bits(32)
    wq_umem_valid = bits(1); _ = rsvd(31); pas = tail(bits(64))

class create_qp_out(CmdOut): _ = rsvd(8); qpn = bits(24); ece = bits(32)
class destroy_qp_in(CmdIn): _ = rsvd(8); qpn = bits(24); _ = rsvd(32)
class destroy_qp_out(CmdOut): _ = rsvd(64)
class query_qp_in(CmdInNoUid): qpc_ext = bits(1); _ = rsvd(7); qpn = bits(24); _ = rsvd(32)

class query_qp_out(CmdOut):
    _ = rsvd(64); opt_param_mask = bits(32); ece = bits(32); qpc = nested(qpc); _ = rsvd(128)
    pas = tail(bits(64))

class ToNextStateIn(CmdIn, abstract=True):
    """A transition along RESET, INIT, RTR and RTS."""

    _ = rsvd(8); qpn = bits(24); _ = rsvd(32); opt_param_mask = bits(32); ece = bits(32)
    qpc = nested(qpc); _ = rsvd(128)

class SameStateIn(CmdIn, abstract=True):
    """A change within INIT or RTS; only these can have an extension of the context."""

    qpc_ext = bits(1); _ = rsvd(7); qpn = bits(24); _ = rsvd(32); opt_param_mask = bits(32)
    ece = bits(32); qpc = nested(qpc); _ = rsvd(64); opt_param_mask_95_32 = bits(64)
    qpc_data_ext = octets(_QPC_EXT_BYTES)

class BackToRtsIn(CmdIn, abstract=True):
    """A transition to RTS from a send queue that has stopped."""

    _ = rsvd(8); qpn = bits(24); _ = rsvd(32); opt_param_mask = bits(32); _ = rsvd(32)
    qpc = nested(qpc); _ = rsvd(128)

class rst2init_qp_in(ToNextStateIn): pass
class rst2init_qp_out(CmdOut): _ = rsvd(32); ece = bits(32)
class init2init_qp_in(SameStateIn): pass
class init2init_qp_out(CmdOut): _ = rsvd(32); ece = bits(32)
class init2rtr_qp_in(ToNextStateIn): pass
class init2rtr_qp_out(CmdOut): _ = rsvd(32); ece = bits(32)
class rtr2rts_qp_in(ToNextStateIn): pass
class rtr2rts_qp_out(CmdOut): _ = rsvd(32); ece = bits(32)
class rts2rts_qp_in(SameStateIn): pass
class rts2rts_qp_out(CmdOut): _ = rsvd(32); ece = bits(32)
class sqerr2rts_qp_in(BackToRtsIn): pass
class sqerr2rts_qp_out(CmdOut): _ = rsvd(64)
class sqd2rts_qp_in(BackToRtsIn): pass
class sqd2rts_qp_out(CmdOut): _ = rsvd(64)
class qp_2err_in(CmdIn): _ = rsvd(8); qpn = bits(24); _ = rsvd(32)
class qp_2err_out(CmdOut): _ = rsvd(64)
class qp_2rst_in(CmdIn): _ = rsvd(8); qpn = bits(24); _ = rsvd(32)
class qp_2rst_out(CmdOut): _ = rsvd(64)

class McgIn(CmdIn, abstract=True):
    _ = rsvd(8); qpn = bits(24); _ = rsvd(32); multicast_gid = octets(16)

class attach_to_mcg_in(McgIn): pass
class attach_to_mcg_out(CmdOut): _ = rsvd(64)
class detach_from_mcg_in(McgIn): pass
class detach_from_mcg_out(CmdOut): _ = rsvd(64)

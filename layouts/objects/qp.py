"""Queue pairs: address path (ads), qpc, CREATE/QUERY/DESTROY_QP and the state transitions.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

ads = Prm(
    "ads",
    "fl" / bits(1), "free_ar" / bits(1), rsvd(14), "pkey_index" / bits(16),
    "plane_index" / bits(8), "grh" / bits(1), "mlid" / bits(7), "rlid" / bits(16),
    "ack_timeout" / bits(5), rsvd(3), "src_addr_index" / bits(8), rsvd(4), "stat_rate" / bits(4),
    "hop_limit" / bits(8), rsvd(4), "tclass" / bits(8), "flow_label" / bits(20),
    "rgid_rip" / octets(16), rsvd(4), "f_dscp" / bits(1), "f_ecn" / bits(1), rsvd(1),
    "f_eth_prio" / bits(1), "ecn" / bits(2), "dscp" / bits(6), "udp_sport" / bits(16),
    "dei_cfi" / bits(1), "eth_prio" / bits(3), "sl" / bits(4), "vhca_port_num" / bits(8),
    "rmac_47_32" / bits(16), "rmac_31_0" / bits(32),
)

qpc = Prm(
    "qpc",
    "state" / bits(4), "lag_tx_port_affinity" / bits(4), "st" / bits(8), rsvd(2),
    "isolate_vl_tc" / bits(1), "pm_state" / bits(2), rsvd(1), "req_e2e_credit_mode" / bits(2),
    "offload_type" / bits(4), "end_padding_mode" / bits(2), rsvd(2), "wq_signature" / bits(1),
    "block_lb_mc" / bits(1), "atomic_like_write_en" / bits(1), "latency_sensitive" / bits(1),
    rsvd(1), "drain_sigerr" / bits(1), rsvd(2), "pd" / bits(24), "mtu" / bits(3),
    "log_msg_max" / bits(5), rsvd(1), "log_rq_size" / bits(4), "log_rq_stride" / bits(3),
    "no_sq" / bits(1), "log_sq_size" / bits(4), rsvd(1), "retry_mode" / bits(2),
    "ts_format" / bits(2), rsvd(1), "rlky" / bits(1), "ulp_stateless_offload_mode" / bits(4),
    "counter_set_id" / bits(8), "uar_page" / bits(24), "send_dbr_mode" / bits(2), rsvd(6),
    "user_index" / bits(24), rsvd(3),
    "log_page_size" / bits(5), "remote_qpn" / bits(24), "primary_address_path" / ads,
    "secondary_address_path" / ads, "log_ack_req_freq" / bits(4), rsvd(4), "log_sra_max" / bits(3),
    rsvd(2), "retry_count" / bits(3), "rnr_retry" / bits(3), rsvd(1), "fre" / bits(1),
    "cur_rnr_retry" / bits(3), "cur_retry_count" / bits(3), rsvd(45), "next_send_psn" / bits(24),
    rsvd(3), "log_num_dci_stream_channels" / bits(5), "cqn_snd" / bits(24), rsvd(3),
    "log_num_dci_errored_streams" / bits(5), "deth_sqpn" / bits(24), rsvd(40),
    "last_acked_psn" / bits(24), rsvd(8), "ssn" / bits(24), rsvd(8), "log_rra_max" / bits(3),
    rsvd(1), "atomic_mode" / bits(4), "rre" / bits(1), "rwe" / bits(1), "rae" / bits(1), rsvd(1),
    "page_offset" / bits(6), rsvd(3), "cd_slave_receive" / bits(1), "cd_slave_send" / bits(1),
    "cd_master" / bits(1), rsvd(3), "min_rnr_nak" / bits(5), "next_rcv_psn" / bits(24), rsvd(8),
    "xrcd" / bits(24), rsvd(8), "cqn_rcv" / bits(24), "dbr_addr" / bits(64), "q_key" / bits(32),
    rsvd(5), "rq_type" / bits(3), "srqn_rmpn_xrqn" / bits(24), rsvd(8), "rmsn" / bits(24),
    "hw_sq_wqebb_counter" / bits(16), "sw_sq_wqebb_counter" / bits(16), "hw_rq_counter" / bits(32),
    "sw_rq_counter" / bits(32), rsvd(47), "cgs" / bits(1), "cs_req" / bits(8), "cs_res" / bits(8),
    "dc_access_key" / bits(64), rsvd(3), "dbr_umem_valid" / bits(1), rsvd(156),
    "dbr_umem_id" / bits(32),
)

cqe_error_syndrome = Prm(
    "cqe_error_syndrome",
    "hw_error_syndrome" / bits(8), "hw_syndrome_type" / bits(4), rsvd(4),
    "vendor_error_syndrome" / bits(8), "syndrome" / bits(8),
)

qpc_ext = Prm(
    "qpc_ext",
    rsvd(2), "mmo" / bits(1), rsvd(13), "dci_stream_channel_id" / bits(16),
    "qos_queue_group_id_requester" / bits(32), "qos_queue_group_id_responder" / bits(32),
    "error_syndrome" / cqe_error_syndrome, rsvd(1408),
)

create_qp_in = Prm(
    "create_qp_in",
    *CMD_IN, "qpc_ext" / bits(1), rsvd(7), "input_qpn" / bits(24), rsvd(32),
    "opt_param_mask" / bits(32), "ece" / bits(32), "qpc" / qpc, "wq_umem_offset" / bits(64),
    "wq_umem_id" / bits(32), "wq_umem_valid" / bits(1), rsvd(31), "pas" / tail(bits(64)),
)

create_qp_out = Prm("create_qp_out", *CMD_OUT, rsvd(8), "qpn" / bits(24), "ece" / bits(32))
destroy_qp_in = Prm("destroy_qp_in", *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32))
destroy_qp_out = Prm("destroy_qp_out", *CMD_OUT, rsvd(64))

query_qp_in = Prm(
    "query_qp_in",
    *CMD_IN_NO_UID, "qpc_ext" / bits(1), rsvd(7), "qpn" / bits(24), rsvd(32),
)

query_qp_out = Prm(
    "query_qp_out",
    *CMD_OUT, rsvd(64), "opt_param_mask" / bits(32), "ece" / bits(32), "qpc" / qpc, rsvd(128),
    "pas" / tail(bits(64)),
)

rst2init_qp_in = Prm(
    "rst2init_qp_in",
    *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32), "opt_param_mask" / bits(32), "ece" / bits(32),
    "qpc" / qpc, rsvd(128),
)

rst2init_qp_out = Prm("rst2init_qp_out", *CMD_OUT, rsvd(32), "ece" / bits(32))

init2init_qp_in = Prm(
    "init2init_qp_in",
    *CMD_IN, "qpc_ext" / bits(1), rsvd(7), "qpn" / bits(24), rsvd(32), "opt_param_mask" / bits(32),
    "ece" / bits(32), "qpc" / qpc, rsvd(64), "opt_param_mask_95_32" / bits(64),
    "qpc_data_ext" / octets(qpc_ext.size),
)

init2init_qp_out = Prm("init2init_qp_out", *CMD_OUT, rsvd(32), "ece" / bits(32))

init2rtr_qp_in = Prm(
    "init2rtr_qp_in",
    *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32), "opt_param_mask" / bits(32), "ece" / bits(32),
    "qpc" / qpc, rsvd(128),
)

init2rtr_qp_out = Prm("init2rtr_qp_out", *CMD_OUT, rsvd(32), "ece" / bits(32))

rtr2rts_qp_in = Prm(
    "rtr2rts_qp_in",
    *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32), "opt_param_mask" / bits(32), "ece" / bits(32),
    "qpc" / qpc, rsvd(128),
)

rtr2rts_qp_out = Prm("rtr2rts_qp_out", *CMD_OUT, rsvd(32), "ece" / bits(32))

rts2rts_qp_in = Prm(
    "rts2rts_qp_in",
    *CMD_IN, "qpc_ext" / bits(1), rsvd(7), "qpn" / bits(24), rsvd(32), "opt_param_mask" / bits(32),
    "ece" / bits(32), "qpc" / qpc, rsvd(64), "opt_param_mask_95_32" / bits(64),
    "qpc_data_ext" / octets(qpc_ext.size),
)

rts2rts_qp_out = Prm("rts2rts_qp_out", *CMD_OUT, rsvd(32), "ece" / bits(32))

sqerr2rts_qp_in = Prm(
    "sqerr2rts_qp_in",
    *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32), "opt_param_mask" / bits(32), rsvd(32),
    "qpc" / qpc, rsvd(128),
)

sqerr2rts_qp_out = Prm("sqerr2rts_qp_out", *CMD_OUT, rsvd(64))

sqd2rts_qp_in = Prm(
    "sqd2rts_qp_in",
    *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32), "opt_param_mask" / bits(32), rsvd(32),
    "qpc" / qpc, rsvd(128),
)

sqd2rts_qp_out = Prm("sqd2rts_qp_out", *CMD_OUT, rsvd(64))
qp_2err_in = Prm("qp_2err_in", *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32))
qp_2err_out = Prm("qp_2err_out", *CMD_OUT, rsvd(64))
qp_2rst_in = Prm("qp_2rst_in", *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32))
qp_2rst_out = Prm("qp_2rst_out", *CMD_OUT, rsvd(64))

attach_to_mcg_in = Prm(
    "attach_to_mcg_in",
    *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32), "multicast_gid" / octets(16),
)

attach_to_mcg_out = Prm("attach_to_mcg_out", *CMD_OUT, rsvd(64))

detach_from_mcg_in = Prm(
    "detach_from_mcg_in",
    *CMD_IN, rsvd(8), "qpn" / bits(24), rsvd(32), "multicast_gid" / octets(16),
)

detach_from_mcg_out = Prm("detach_from_mcg_out", *CMD_OUT, rsvd(64))

"""Shared receive queues in their three forms: SRQ (ISSI 0), XRC SRQ and RMP.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

srqc = Prm(
    "srqc",
    "state" / bits(4), "log_srq_size" / bits(4), rsvd(24), "wq_signature" / bits(1),
    "cont_srq" / bits(1), rsvd(1), "rlky" / bits(1), rsvd(1), "log_rq_stride" / bits(3),
    "xrcd" / bits(24), "page_offset" / bits(6), rsvd(2), "cqn" / bits(24), rsvd(34),
    "log_page_size" / bits(6), rsvd(64), "pd" / bits(24), "lwm" / bits(16), "wqe_cnt" / bits(16),
    rsvd(64), "dbr_addr" / bits(64), rsvd(128),
)

create_srq_in = Prm(
    "create_srq_in",
    *CMD_IN, rsvd(64), "srq_context_entry" / srqc, rsvd(1536), "pas" / tail(bits(64)),
)

create_srq_out = Prm("create_srq_out", *CMD_OUT, rsvd(8), "srqn" / bits(24), rsvd(32))
query_srq_in = Prm("query_srq_in", *CMD_IN_NO_UID, rsvd(8), "srqn" / bits(24), rsvd(32))

query_srq_out = Prm(
    "query_srq_out",
    *CMD_OUT, rsvd(64), "srq_context_entry" / srqc, rsvd(1536), "pas" / tail(bits(64)),
)

destroy_srq_in = Prm("destroy_srq_in", *CMD_IN, rsvd(8), "srqn" / bits(24), rsvd(32))
destroy_srq_out = Prm("destroy_srq_out", *CMD_OUT, rsvd(64))
arm_rq_in = Prm("arm_rq_in", *CMD_IN, rsvd(8), "srq_number" / bits(24), rsvd(16), "lwm" / bits(16))
arm_rq_out = Prm("arm_rq_out", *CMD_OUT, rsvd(64))

xrc_srqc = Prm(
    "xrc_srqc",
    "state" / bits(4), "log_xrc_srq_size" / bits(4), rsvd(24), "wq_signature" / bits(1),
    "cont_srq" / bits(1), rsvd(1), "rlky" / bits(1), "basic_cyclic_rcv_wqe" / bits(1),
    "log_rq_stride" / bits(3), "xrcd" / bits(24), "page_offset" / bits(6), rsvd(1),
    "dbr_umem_valid" / bits(1), "cqn" / bits(24), rsvd(32), "user_index_equal_xrc_srqn" / bits(1),
    rsvd(1), "log_page_size" / bits(6), "user_index" / bits(24), rsvd(40), "pd" / bits(24),
    "lwm" / bits(16), "wqe_cnt" / bits(16), rsvd(64), "db_record_addr_h" / bits(32),
    "db_record_addr_l" / bits(30), rsvd(130),
)

create_xrc_srq_in = Prm(
    "create_xrc_srq_in",
    *CMD_IN, rsvd(64), "xrc_srq_context_entry" / xrc_srqc, rsvd(96),
    "xrc_srq_umem_valid" / bits(1), rsvd(1439), "pas" / tail(bits(64)),
)

create_xrc_srq_out = Prm("create_xrc_srq_out", *CMD_OUT, rsvd(8), "xrc_srqn" / bits(24), rsvd(32))

query_xrc_srq_in = Prm(
    "query_xrc_srq_in",
    *CMD_IN_NO_UID, rsvd(8), "xrc_srqn" / bits(24), rsvd(32),
)

query_xrc_srq_out = Prm(
    "query_xrc_srq_out",
    *CMD_OUT, rsvd(64), "xrc_srq_context_entry" / xrc_srqc, rsvd(1536), "pas" / tail(bits(64)),
)

destroy_xrc_srq_in = Prm("destroy_xrc_srq_in", *CMD_IN, rsvd(8), "xrc_srqn" / bits(24), rsvd(32))
destroy_xrc_srq_out = Prm("destroy_xrc_srq_out", *CMD_OUT, rsvd(64))

arm_xrc_srq_in = Prm(
    "arm_xrc_srq_in",
    *CMD_IN, rsvd(8), "xrc_srqn" / bits(24), rsvd(16), "lwm" / bits(16),
)

arm_xrc_srq_out = Prm("arm_xrc_srq_out", *CMD_OUT, rsvd(64))

wq = Prm(
    "wq",
    "wq_type" / bits(4), "wq_signature" / bits(1), "end_padding_mode" / bits(2),
    "cd_slave" / bits(1), rsvd(24), "hds_skip_first_sge" / bits(1), "log2_hds_buf_size" / bits(3),
    rsvd(7), "page_offset" / bits(5), "lwm" / bits(16), rsvd(8), "pd" / bits(24), rsvd(8),
    "uar_page" / bits(24), "dbr_addr" / bits(64), "hw_counter" / bits(32), "sw_counter" / bits(32),
    rsvd(12), "log_wq_stride" / bits(4), rsvd(3), "log_wq_pg_sz" / bits(5), rsvd(3),
    "log_wq_sz" / bits(5), "dbr_umem_valid" / bits(1), "wq_umem_valid" / bits(1), rsvd(1),
    "log_hairpin_num_packets" / bits(5), rsvd(3), "log_hairpin_data_sz" / bits(5), rsvd(4),
    "log_wqe_num_of_strides" / bits(4), "two_byte_shift_en" / bits(1), rsvd(4),
    "log_wqe_stride_size" / bits(3), "dbr_umem_id" / bits(32), "wq_umem_id" / bits(32),
    "wq_umem_offset" / bits(64), "headers_mkey" / bits(32), "shampo_enable" / bits(1), rsvd(4),
    "log_reservation_size" / bits(3), rsvd(5), "log_max_num_of_packets_per_reservation" / bits(3),
    rsvd(6), "log_headers_entry_size" / bits(2), rsvd(4), "log_headers_buffer_entry_num" / bits(4),
    rsvd(1024), "pas" / tail(bits(64)),
)

rmpc = Prm(
    "rmpc",
    rsvd(8), "state" / bits(4), rsvd(20), "basic_cyclic_rcv_wqe" / bits(1), rsvd(351), "wq" / wq,
)

rmp_bitmask = Prm("rmp_bitmask", rsvd(63), "lwm" / bits(1))
create_rmp_in = Prm("create_rmp_in", *CMD_IN, rsvd(192), "ctx" / rmpc)
create_rmp_out = Prm("create_rmp_out", *CMD_OUT, rsvd(8), "rmpn" / bits(24), rsvd(32))

modify_rmp_in = Prm(
    "modify_rmp_in",
    *CMD_IN, "rmp_state" / bits(4), rsvd(4), "rmpn" / bits(24), rsvd(32), "bitmask" / rmp_bitmask,
    rsvd(64), "ctx" / rmpc,
)

modify_rmp_out = Prm("modify_rmp_out", *CMD_OUT, rsvd(64))
query_rmp_in = Prm("query_rmp_in", *CMD_IN_NO_UID, rsvd(8), "rmpn" / bits(24), rsvd(32))
query_rmp_out = Prm("query_rmp_out", *CMD_OUT, rsvd(192), "rmp_context" / rmpc)
destroy_rmp_in = Prm("destroy_rmp_in", *CMD_IN, rsvd(8), "rmpn" / bits(24), rsvd(32))
destroy_rmp_out = Prm("destroy_rmp_out", *CMD_OUT, rsvd(64))

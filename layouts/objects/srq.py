"""Shared receive queues in their three forms: SRQ (ISSI 0), XRC SRQ and RMP.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class srqc(Prm):
    state = bits(4); log_srq_size = bits(4); _ = rsvd(24)
    wq_signature = bits(1); cont_srq = bits(1); _ = rsvd(1); rlky = bits(1); _ = rsvd(1)
    log_rq_stride = bits(3); xrcd = bits(24); page_offset = bits(6); _ = rsvd(2); cqn = bits(24)
    _ = rsvd(34); log_page_size = bits(6); _ = rsvd(64); pd = bits(24)
    lwm = bits(16); wqe_cnt = bits(16); _ = rsvd(64); dbr_addr = bits(64); _ = rsvd(128)

class create_srq_in(CmdIn):
    _ = rsvd(64); srq_context_entry = nested(srqc); _ = rsvd(1536); pas = tail(bits(64))

class create_srq_out(CmdOut): _ = rsvd(8); srqn = bits(24); _ = rsvd(32)
class query_srq_in(CmdInNoUid): _ = rsvd(8); srqn = bits(24); _ = rsvd(32)

class query_srq_out(CmdOut):
    _ = rsvd(64); srq_context_entry = nested(srqc); _ = rsvd(1536); pas = tail(bits(64))

class destroy_srq_in(CmdIn): _ = rsvd(8); srqn = bits(24); _ = rsvd(32)
class destroy_srq_out(CmdOut): _ = rsvd(64)
class arm_rq_in(CmdIn): _ = rsvd(8); srq_number = bits(24); _ = rsvd(16); lwm = bits(16)
class arm_rq_out(CmdOut): _ = rsvd(64)

class xrc_srqc(Prm):
    state = bits(4); log_xrc_srq_size = bits(4); _ = rsvd(24)
    wq_signature = bits(1); cont_srq = bits(1); _ = rsvd(1); rlky = bits(1)
    basic_cyclic_rcv_wqe = bits(1); log_rq_stride = bits(3); xrcd = bits(24)
    page_offset = bits(6); _ = rsvd(1); dbr_umem_valid = bits(1); cqn = bits(24); _ = rsvd(32)
    user_index_equal_xrc_srqn = bits(1); _ = rsvd(1); log_page_size = bits(6); user_index = bits(24)
    _ = rsvd(40); pd = bits(24); lwm = bits(16); wqe_cnt = bits(16); _ = rsvd(64)
    db_record_addr_h = bits(32); db_record_addr_l = bits(30); _ = rsvd(130)

class create_xrc_srq_in(CmdIn):
    _ = rsvd(64); xrc_srq_context_entry = nested(xrc_srqc); _ = rsvd(96)
    xrc_srq_umem_valid = bits(1); _ = rsvd(1439); pas = tail(bits(64))

class create_xrc_srq_out(CmdOut): _ = rsvd(8); xrc_srqn = bits(24); _ = rsvd(32)
class query_xrc_srq_in(CmdInNoUid): _ = rsvd(8); xrc_srqn = bits(24); _ = rsvd(32)

class query_xrc_srq_out(CmdOut):
    _ = rsvd(64); xrc_srq_context_entry = nested(xrc_srqc); _ = rsvd(1536); pas = tail(bits(64))

class destroy_xrc_srq_in(CmdIn): _ = rsvd(8); xrc_srqn = bits(24); _ = rsvd(32)
class destroy_xrc_srq_out(CmdOut): _ = rsvd(64)
class arm_xrc_srq_in(CmdIn): _ = rsvd(8); xrc_srqn = bits(24); _ = rsvd(16); lwm = bits(16)
class arm_xrc_srq_out(CmdOut): _ = rsvd(64)

class wq(Prm):
    wq_type = bits(4); wq_signature = bits(1); end_padding_mode = bits(2); cd_slave = bits(1)
    _ = rsvd(24)
    hds_skip_first_sge = bits(1); log2_hds_buf_size = bits(3); _ = rsvd(7); page_offset = bits(5)
    lwm = bits(16); _ = rsvd(8); pd = bits(24); _ = rsvd(8); uar_page = bits(24)
    dbr_addr = bits(64); hw_counter = bits(32); sw_counter = bits(32)
    _ = rsvd(12); log_wq_stride = bits(4); _ = rsvd(3); log_wq_pg_sz = bits(5); _ = rsvd(3)
    log_wq_sz = bits(5)
    dbr_umem_valid = bits(1); wq_umem_valid = bits(1); _ = rsvd(1)
    log_hairpin_num_packets = bits(5); _ = rsvd(3); log_hairpin_data_sz = bits(5); _ = rsvd(4)
    log_wqe_num_of_strides = bits(4); two_byte_shift_en = bits(1); _ = rsvd(4)
    log_wqe_stride_size = bits(3); dbr_umem_id = bits(32); wq_umem_id = bits(32)
    wq_umem_offset = bits(64); headers_mkey = bits(32)
    shampo_enable = bits(1); _ = rsvd(4); log_reservation_size = bits(3); _ = rsvd(5)
    log_max_num_of_packets_per_reservation = bits(3); _ = rsvd(6); log_headers_entry_size = bits(2)
    _ = rsvd(4); log_headers_buffer_entry_num = bits(4); _ = rsvd(1024); pas = tail(bits(64))

class rmpc(Prm):
    _ = rsvd(8); state = bits(4); _ = rsvd(20); basic_cyclic_rcv_wqe = bits(1); _ = rsvd(351)
    wq = nested(wq)

class rmp_bitmask(Prm): _ = rsvd(63); lwm = bits(1)
class create_rmp_in(CmdIn): _ = rsvd(192); ctx = nested(rmpc)
class create_rmp_out(CmdOut): _ = rsvd(8); rmpn = bits(24); _ = rsvd(32)

class modify_rmp_in(CmdIn):
    rmp_state = bits(4); _ = rsvd(4); rmpn = bits(24); _ = rsvd(32); bitmask = nested(rmp_bitmask)
    _ = rsvd(64); ctx = nested(rmpc)

class modify_rmp_out(CmdOut): _ = rsvd(64)
class query_rmp_in(CmdInNoUid): _ = rsvd(8); rmpn = bits(24); _ = rsvd(32)
class query_rmp_out(CmdOut): _ = rsvd(192); rmp_context = nested(rmpc)
class destroy_rmp_in(CmdIn): _ = rsvd(8); rmpn = bits(24); _ = rsvd(32)
class destroy_rmp_out(CmdOut): _ = rsvd(64)

"""Completion queues: cqc, CREATE/QUERY/MODIFY/DESTROY_CQ.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class cqc(Prm):
    status = bits(4); _ = rsvd(2); dbr_umem_valid = bits(1); apu_cq = bits(1); cqe_sz = bits(3)
    cc = bits(1); _ = rsvd(1); scqe_break_moderation_en = bits(1); oi = bits(1)
    cq_period_mode = bits(2); cqe_comp_en = bits(1); mini_cqe_res_format = bits(2); st = bits(4)
    _ = rsvd(6); cqe_compression_layout = bits(2); dbr_umem_id = bits(32)
    _ = rsvd(20); page_offset = bits(6); _ = rsvd(2); mini_cqe_res_format_ext = bits(2); _ = rsvd(5)
    log_cq_size = bits(5); uar_page = bits(24)
    _ = rsvd(4); cq_period = bits(12); cq_max_count = bits(16); c_eqn_or_apu_element = bits(32)
    _ = rsvd(3); log_page_size = bits(5); _ = rsvd(64); last_notified_index = bits(24)
    _ = rsvd(8); last_solicit_index = bits(24); _ = rsvd(8); consumer_counter = bits(24)
    _ = rsvd(8); producer_counter = bits(24); _ = rsvd(64); dbr_addr = bits(64)

class create_cq_in(CmdIn):
    _ = rsvd(64); cq_context = nested(cqc); cq_umem_offset = bits(64); cq_umem_id = bits(32)
    cq_umem_valid = bits(1); _ = rsvd(1439); pas = tail(bits(64))

class create_cq_out(CmdOut): _ = rsvd(8); cqn = bits(24); _ = rsvd(32)
class query_cq_in(CmdInNoUid): _ = rsvd(8); cqn = bits(24); _ = rsvd(32)

class query_cq_out(CmdOut):
    _ = rsvd(64); cq_context = nested(cqc); _ = rsvd(1536); pas = tail(bits(64))

class modify_cq_in(CmdIn):
    _ = rsvd(8); cqn = bits(24); modify_field_select_resize_field_select = bits(32)
    cq_context = nested(cqc); cq_umem_offset = bits(64); cq_umem_id = bits(32)
    cq_umem_valid = bits(1); _ = rsvd(1439); pas = tail(bits(64))

class modify_cq_out(CmdOut): _ = rsvd(64)
class destroy_cq_in(CmdIn): _ = rsvd(8); cqn = bits(24); _ = rsvd(32)
class destroy_cq_out(CmdOut): _ = rsvd(64)

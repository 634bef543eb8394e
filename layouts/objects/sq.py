"""Send queues (SQ) of raw Ethernet packets.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.objects.srq import wq
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class sqc(Prm):
    rlky = bits(1); cd_master = bits(1); fre = bits(1); flush_in_error_en = bits(1)
    allow_multi_pkt_send_wqe = bits(1); min_wqe_inline_mode = bits(3); state = bits(4)
    reg_umr = bits(1); allow_swp = bits(1); hairpin = bits(1); non_wire = bits(1); _ = rsvd(10)
    ts_format = bits(2); _ = rsvd(12); user_index = bits(24); _ = rsvd(8); cqn = bits(24)
    _ = rsvd(8); hairpin_peer_rq = bits(24); _ = rsvd(16); hairpin_peer_vhca = bits(16)
    _ = rsvd(40); ts_cqe_to_dest_cqn = bits(24)
    _ = rsvd(16); packet_pacing_rate_limit_index = bits(16)
    tis_lst_sz = bits(16); qos_queue_group_id = bits(16); _ = rsvd(72); tis_num_0 = bits(24)
    wq = nested(wq)

class create_sq_in(CmdIn): _ = rsvd(192); ctx = nested(sqc)
class create_sq_out(CmdOut): _ = rsvd(8); sqn = bits(24); _ = rsvd(32)

class modify_sq_in(CmdIn):
    sq_state = bits(4); _ = rsvd(4); sqn = bits(24); _ = rsvd(32); modify_bitmask = bits(64)
    _ = rsvd(64); ctx = nested(sqc)

class modify_sq_out(CmdOut): _ = rsvd(64)
class query_sq_in(CmdInNoUid): _ = rsvd(8); sqn = bits(24); _ = rsvd(32)
class query_sq_out(CmdOut): _ = rsvd(192); sq_context = nested(sqc)
class destroy_sq_in(CmdIn): _ = rsvd(8); sqn = bits(24); _ = rsvd(32)
class destroy_sq_out(CmdOut): _ = rsvd(64)

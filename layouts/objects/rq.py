"""Receive queues (RQ) of raw Ethernet packets.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.objects.srq import wq
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class rqc(Prm):
    rlky = bits(1); delay_drop_en = bits(1); scatter_fcs = bits(1); vsd = bits(1)
    mem_rq_type = bits(4); state = bits(4); _ = rsvd(1); flush_in_error_en = bits(1)
    hairpin = bits(1); _ = rsvd(11); ts_format = bits(2); _ = rsvd(12); user_index = bits(24)
    _ = rsvd(8); cqn = bits(24); counter_set_id = bits(8); _ = rsvd(32); rmpn = bits(24)
    _ = rsvd(8); hairpin_peer_sq = bits(24); _ = rsvd(16); hairpin_peer_vhca = bits(16)
    _ = rsvd(70); shampo_no_match_alignment_granularity = bits(2); _ = rsvd(6)
    shampo_match_criteria_type = bits(2); reservation_timeout = bits(16); _ = rsvd(64)
    wq = nested(wq)

class create_rq_in(CmdIn): _ = rsvd(192); ctx = nested(rqc)
class create_rq_out(CmdOut): _ = rsvd(8); rqn = bits(24); _ = rsvd(32)

class modify_rq_in(CmdIn):
    rq_state = bits(4); _ = rsvd(4); rqn = bits(24); _ = rsvd(32); modify_bitmask = bits(64)
    _ = rsvd(64); ctx = nested(rqc)

class modify_rq_out(CmdOut): _ = rsvd(64)
class query_rq_in(CmdInNoUid): _ = rsvd(8); rqn = bits(24); _ = rsvd(32)
class query_rq_out(CmdOut): _ = rsvd(192); rq_context = nested(rqc)
class destroy_rq_in(CmdIn): _ = rsvd(8); rqn = bits(24); _ = rsvd(32)
class destroy_rq_out(CmdOut): _ = rsvd(64)

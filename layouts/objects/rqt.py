"""Receive queue tables (RQT): the list of RQs that an indirect TIR indexes by its hash.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class rq_num(Prm): _ = rsvd(8); rq_num = bits(24)

class rqtc(Prm):
    _ = rsvd(165); list_q_type = bits(3); _ = rsvd(8); rqt_max_size = bits(16)
    rq_vhca_id_format = bits(1); _ = rsvd(15); rqt_actual_size = bits(16); _ = rsvd(1696)
    rq_num = tail(nested(rq_num))

class create_rqt_in(CmdIn): _ = rsvd(192); rqt_context = nested(rqtc)
class create_rqt_out(CmdOut): _ = rsvd(8); rqtn = bits(24); _ = rsvd(32)
class rqt_bitmask(Prm): _ = rsvd(63); rqn_list = bits(1)

class modify_rqt_in(CmdIn):
    _ = rsvd(8); rqtn = bits(24); _ = rsvd(32); bitmask = nested(rqt_bitmask); _ = rsvd(64)
    ctx = nested(rqtc)

class modify_rqt_out(CmdOut): _ = rsvd(64)
class query_rqt_in(CmdInNoUid): _ = rsvd(8); rqtn = bits(24); _ = rsvd(32)
class query_rqt_out(CmdOut): _ = rsvd(192); rqt_context = nested(rqtc)
class destroy_rqt_in(CmdIn): _ = rsvd(8); rqtn = bits(24); _ = rsvd(32)
class destroy_rqt_out(CmdOut): _ = rsvd(64)

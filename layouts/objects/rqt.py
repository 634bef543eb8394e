"""Receive queue tables (RQT): the list of RQs that an indirect TIR indexes by its hash.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

rq_num = Prm("rq_num", rsvd(8), "rq_num" / bits(24))

rqtc = Prm(
    "rqtc",
    rsvd(165), "list_q_type" / bits(3), rsvd(8), "rqt_max_size" / bits(16),
    "rq_vhca_id_format" / bits(1), rsvd(15), "rqt_actual_size" / bits(16), rsvd(1696),
    "rq_num" / tail(rq_num),
)

create_rqt_in = Prm("create_rqt_in", *CMD_IN, rsvd(192), "rqt_context" / rqtc)
create_rqt_out = Prm("create_rqt_out", *CMD_OUT, rsvd(8), "rqtn" / bits(24), rsvd(32))
rqt_bitmask = Prm("rqt_bitmask", rsvd(63), "rqn_list" / bits(1))

modify_rqt_in = Prm(
    "modify_rqt_in",
    *CMD_IN, rsvd(8), "rqtn" / bits(24), rsvd(32), "bitmask" / rqt_bitmask, rsvd(64), "ctx" / rqtc,
)

modify_rqt_out = Prm("modify_rqt_out", *CMD_OUT, rsvd(64))
query_rqt_in = Prm("query_rqt_in", *CMD_IN_NO_UID, rsvd(8), "rqtn" / bits(24), rsvd(32))
query_rqt_out = Prm("query_rqt_out", *CMD_OUT, rsvd(192), "rqt_context" / rqtc)
destroy_rqt_in = Prm("destroy_rqt_in", *CMD_IN, rsvd(8), "rqtn" / bits(24), rsvd(32))
destroy_rqt_out = Prm("destroy_rqt_out", *CMD_OUT, rsvd(64))

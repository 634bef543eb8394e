"""Receive queues (RQ) of raw Ethernet packets.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.objects.srq import wq
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

rqc = Prm(
    "rqc",
    "rlky" / bits(1), "delay_drop_en" / bits(1), "scatter_fcs" / bits(1), "vsd" / bits(1),
    "mem_rq_type" / bits(4), "state" / bits(4), rsvd(1), "flush_in_error_en" / bits(1),
    "hairpin" / bits(1), rsvd(11), "ts_format" / bits(2), rsvd(12), "user_index" / bits(24),
    rsvd(8), "cqn" / bits(24), "counter_set_id" / bits(8), rsvd(32), "rmpn" / bits(24), rsvd(8),
    "hairpin_peer_sq" / bits(24), rsvd(16), "hairpin_peer_vhca" / bits(16), rsvd(70),
    "shampo_no_match_alignment_granularity" / bits(2), rsvd(6),
    "shampo_match_criteria_type" / bits(2), "reservation_timeout" / bits(16), rsvd(64), "wq" / wq,
)

create_rq_in = Prm("create_rq_in", *CMD_IN, rsvd(192), "ctx" / rqc)
create_rq_out = Prm("create_rq_out", *CMD_OUT, rsvd(8), "rqn" / bits(24), rsvd(32))

modify_rq_in = Prm(
    "modify_rq_in",
    *CMD_IN, "rq_state" / bits(4), rsvd(4), "rqn" / bits(24), rsvd(32), "modify_bitmask" / bits(64),
    rsvd(64), "ctx" / rqc,
)

modify_rq_out = Prm("modify_rq_out", *CMD_OUT, rsvd(64))
query_rq_in = Prm("query_rq_in", *CMD_IN_NO_UID, rsvd(8), "rqn" / bits(24), rsvd(32))
query_rq_out = Prm("query_rq_out", *CMD_OUT, rsvd(192), "rq_context" / rqc)
destroy_rq_in = Prm("destroy_rq_in", *CMD_IN, rsvd(8), "rqn" / bits(24), rsvd(32))
destroy_rq_out = Prm("destroy_rq_out", *CMD_OUT, rsvd(64))

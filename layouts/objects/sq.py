"""Send queues (SQ) of raw Ethernet packets.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.objects.srq import wq
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

sqc = Prm(
    "sqc",
    "rlky" / bits(1), "cd_master" / bits(1), "fre" / bits(1), "flush_in_error_en" / bits(1),
    "allow_multi_pkt_send_wqe" / bits(1), "min_wqe_inline_mode" / bits(3), "state" / bits(4),
    "reg_umr" / bits(1), "allow_swp" / bits(1), "hairpin" / bits(1), "non_wire" / bits(1), rsvd(10),
    "ts_format" / bits(2), rsvd(12), "user_index" / bits(24), rsvd(8), "cqn" / bits(24), rsvd(8),
    "hairpin_peer_rq" / bits(24), rsvd(16), "hairpin_peer_vhca" / bits(16), rsvd(40),
    "ts_cqe_to_dest_cqn" / bits(24), rsvd(16), "packet_pacing_rate_limit_index" / bits(16),
    "tis_lst_sz" / bits(16), "qos_queue_group_id" / bits(16), rsvd(72), "tis_num_0" / bits(24),
    "wq" / wq,
)

create_sq_in = Prm("create_sq_in", *CMD_IN, rsvd(192), "ctx" / sqc)
create_sq_out = Prm("create_sq_out", *CMD_OUT, rsvd(8), "sqn" / bits(24), rsvd(32))

modify_sq_in = Prm(
    "modify_sq_in",
    *CMD_IN, "sq_state" / bits(4), rsvd(4), "sqn" / bits(24), rsvd(32), "modify_bitmask" / bits(64),
    rsvd(64), "ctx" / sqc,
)

modify_sq_out = Prm("modify_sq_out", *CMD_OUT, rsvd(64))
query_sq_in = Prm("query_sq_in", *CMD_IN_NO_UID, rsvd(8), "sqn" / bits(24), rsvd(32))
query_sq_out = Prm("query_sq_out", *CMD_OUT, rsvd(192), "sq_context" / sqc)
destroy_sq_in = Prm("destroy_sq_in", *CMD_IN, rsvd(8), "sqn" / bits(24), rsvd(32))
destroy_sq_out = Prm("destroy_sq_out", *CMD_OUT, rsvd(64))

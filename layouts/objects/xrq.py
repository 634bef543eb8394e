"""XRQs: shared receive queues with an offloaded application, here tag matching.

Names and widths: mlx5_ifc.h of Linux 6.12; ``dc`` is in UCX's ib_mlx5_ifc.h alone.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.objects.srq import wq
from layouts.prm import Prm, bits, rsvd

TOPOLOGY_TAG_MATCHING = 1
OFFLOAD_RNDV = 1
"""Value of offload: the adapter carries out rendezvous itself."""

# Fields stand in rows, as in the PRM's figures.
# fmt: off

tag_matching_topology_context = Prm(
    "tag_matching_topology_context",
    "log_matching_list_sz" / bits(4), rsvd(12), "append_next_index" / bits(16),
    "sw_phase_cnt" / bits(16), "hw_phase_cnt" / bits(16), rsvd(64),
)

xrqc = Prm(
    "xrqc",
    "state" / bits(4), "rlkey" / bits(1), rsvd(15), "topology" / bits(4), rsvd(4),
    "offload" / bits(4), rsvd(8), "user_index" / bits(24), rsvd(8), "cqn" / bits(24), rsvd(31),
    "dc" / bits(1), rsvd(128), "tag_matching_topology_context" / tag_matching_topology_context,
    rsvd(640), "wq" / wq,
)

create_xrq_in = Prm("create_xrq_in", *CMD_IN, rsvd(64), "xrq_context" / xrqc)
create_xrq_out = Prm("create_xrq_out", *CMD_OUT, rsvd(8), "xrqn" / bits(24), rsvd(32))
query_xrq_in = Prm("query_xrq_in", *CMD_IN_NO_UID, rsvd(8), "xrqn" / bits(24), rsvd(32))
query_xrq_out = Prm("query_xrq_out", *CMD_OUT, rsvd(64), "xrq_context" / xrqc)
destroy_xrq_in = Prm("destroy_xrq_in", *CMD_IN, rsvd(8), "xrqn" / bits(24), rsvd(32))
destroy_xrq_out = Prm("destroy_xrq_out", *CMD_OUT, rsvd(64))

arm_xrq_in = Prm(
    "arm_xrq_in",
    *CMD_IN_NO_UID, rsvd(8), "xrqn" / bits(24), rsvd(16), "lwm" / bits(16),
)

arm_xrq_out = Prm("arm_xrq_out", *CMD_OUT, rsvd(64))

"""XRQs: shared receive queues with an offloaded application, here tag matching.

Names and widths: mlx5_ifc.h of Linux 6.12; ``dc`` is in UCX's ib_mlx5_ifc.h alone.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.objects.srq import wq
from layouts.prm import Prm, bits, nested, rsvd

TOPOLOGY_TAG_MATCHING = 1
OFFLOAD_RNDV = 1
"""Value of offload: the adapter carries out rendezvous itself."""

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class tag_matching_topology_context(Prm):
    log_matching_list_sz = bits(4); _ = rsvd(12); append_next_index = bits(16)
    sw_phase_cnt = bits(16); hw_phase_cnt = bits(16); _ = rsvd(64)

class xrqc(Prm):
    state = bits(4); rlkey = bits(1); _ = rsvd(15); topology = bits(4); _ = rsvd(4)
    offload = bits(4); _ = rsvd(8); user_index = bits(24); _ = rsvd(8); cqn = bits(24)
    _ = rsvd(31); dc = bits(1); _ = rsvd(128)
    tag_matching_topology_context = nested(tag_matching_topology_context); _ = rsvd(640)
    wq = nested(wq)

class create_xrq_in(CmdIn): _ = rsvd(64); xrq_context = nested(xrqc)
class create_xrq_out(CmdOut): _ = rsvd(8); xrqn = bits(24); _ = rsvd(32)
class query_xrq_in(CmdInNoUid): _ = rsvd(8); xrqn = bits(24); _ = rsvd(32)
class query_xrq_out(CmdOut): _ = rsvd(64); xrq_context = nested(xrqc)
class destroy_xrq_in(CmdIn): _ = rsvd(8); xrqn = bits(24); _ = rsvd(32)
class destroy_xrq_out(CmdOut): _ = rsvd(64)
class arm_xrq_in(CmdInNoUid): _ = rsvd(8); xrqn = bits(24); _ = rsvd(16); lwm = bits(16)
class arm_xrq_out(CmdOut): _ = rsvd(64)

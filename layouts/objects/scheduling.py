"""Rates of send queues: the table of packet pacing, and scheduling elements.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class set_pp_rate_limit_context(Prm):
    rate_limit = bits(32); burst_upper_bound = bits(32)
    _ = rsvd(16); typical_packet_size = bits(16); _ = rsvd(288)

class set_pp_rate_limit_in(CmdIn):
    _ = rsvd(16); rate_limit_index = bits(16); _ = rsvd(32); ctx = nested(set_pp_rate_limit_context)

class set_pp_rate_limit_out(CmdOut): _ = rsvd(64)

class scheduling_context(Prm):
    element_type = bits(8); _ = rsvd(24); element_attributes = bits(32)
    parent_element_id = bits(32); _ = rsvd(64); bw_share = bits(32); max_average_bw = bits(32)
    max_bw_obj_id = bits(32); _ = rsvd(256)

# Scheduling element as a general object (rdma-core's mlx5_ifc.h).
class sched_elem(Prm):
    modify_field_select = bits(64); scheduling_hierarchy = bits(8); _ = rsvd(184)
    sched_context = nested(scheduling_context); _ = rsvd(256)

class create_scheduling_element_in(CmdInNoUid):
    scheduling_hierarchy = bits(8); _ = rsvd(184); scheduling_context = nested(scheduling_context)
    _ = rsvd(256)

class create_scheduling_element_out(CmdOut):
    _ = rsvd(64); scheduling_element_id = bits(32); _ = rsvd(352)

class modify_scheduling_element_in(CmdInNoUid):
    scheduling_hierarchy = bits(8); _ = rsvd(24); scheduling_element_id = bits(32); _ = rsvd(32)
    modify_bitmask = bits(32); _ = rsvd(64); scheduling_context = nested(scheduling_context)
    _ = rsvd(256)

class modify_scheduling_element_out(CmdOut): _ = rsvd(448)

class query_scheduling_element_in(CmdInNoUid):
    scheduling_hierarchy = bits(8); _ = rsvd(24); scheduling_element_id = bits(32); _ = rsvd(384)

# The driver's structure repeats the input's command header; no reader uses it.
class query_scheduling_element_out(CmdOut):
    _ = rsvd(192); scheduling_context = nested(scheduling_context); _ = rsvd(256)

class destroy_scheduling_element_in(CmdInNoUid):
    scheduling_hierarchy = bits(8); _ = rsvd(24); scheduling_element_id = bits(32); _ = rsvd(384)

class destroy_scheduling_element_out(CmdOut): _ = rsvd(448)

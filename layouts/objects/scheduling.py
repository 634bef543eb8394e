"""Rates of send queues: the table of packet pacing, and scheduling elements.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

set_pp_rate_limit_context = Prm(
    "set_pp_rate_limit_context",
    "rate_limit" / bits(32), "burst_upper_bound" / bits(32), rsvd(16),
    "typical_packet_size" / bits(16), rsvd(288),
)

set_pp_rate_limit_in = Prm(
    "set_pp_rate_limit_in",
    *CMD_IN, rsvd(16), "rate_limit_index" / bits(16), rsvd(32), "ctx" / set_pp_rate_limit_context,
)

set_pp_rate_limit_out = Prm("set_pp_rate_limit_out", *CMD_OUT, rsvd(64))

scheduling_context = Prm(
    "scheduling_context",
    "element_type" / bits(8), rsvd(24), "element_attributes" / bits(32),
    "parent_element_id" / bits(32), rsvd(64), "bw_share" / bits(32), "max_average_bw" / bits(32),
    rsvd(288),
)

# Scheduling element as a general object (rdma-core's mlx5_ifc.h).
sched_elem = Prm(
    "sched_elem",
    "modify_field_select" / bits(64), "scheduling_hierarchy" / bits(8), rsvd(184),
    "sched_context" / scheduling_context, rsvd(256),
)

create_scheduling_element_in = Prm(
    "create_scheduling_element_in",
    *CMD_IN_NO_UID, "scheduling_hierarchy" / bits(8), rsvd(184),
    "scheduling_context" / scheduling_context, rsvd(256),
)

create_scheduling_element_out = Prm(
    "create_scheduling_element_out",
    *CMD_OUT, rsvd(64), "scheduling_element_id" / bits(32), rsvd(352),
)

modify_scheduling_element_in = Prm(
    "modify_scheduling_element_in",
    *CMD_IN_NO_UID, "scheduling_hierarchy" / bits(8), rsvd(24), "scheduling_element_id" / bits(32),
    rsvd(32), "modify_bitmask" / bits(32), rsvd(64), "scheduling_context" / scheduling_context,
    rsvd(256),
)

modify_scheduling_element_out = Prm("modify_scheduling_element_out", *CMD_OUT, rsvd(448))

query_scheduling_element_in = Prm(
    "query_scheduling_element_in",
    *CMD_IN_NO_UID, "scheduling_hierarchy" / bits(8), rsvd(24), "scheduling_element_id" / bits(32),
    rsvd(384),
)

# The driver's structure repeats the input's command header; no reader uses it.
query_scheduling_element_out = Prm(
    "query_scheduling_element_out",
    *CMD_OUT, rsvd(192), "scheduling_context" / scheduling_context, rsvd(256),
)

destroy_scheduling_element_in = Prm(
    "destroy_scheduling_element_in",
    *CMD_IN_NO_UID, "scheduling_hierarchy" / bits(8), rsvd(24), "scheduling_element_id" / bits(32),
    rsvd(384),
)

destroy_scheduling_element_out = Prm("destroy_scheduling_element_out", *CMD_OUT, rsvd(448))

"""Flow counters: packets and bytes that matched entries with the action COUNT.

Names and widths: mlx5_ifc.h of Linux 6.12; mlx5_prm.h of DPDK for the dump of user space.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.function.vport import traffic_counter
from layouts.prm import Prm, bits, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

alloc_flow_counter_in = Prm(
    "alloc_flow_counter_in",
    *CMD_IN_NO_UID, rsvd(51), "flow_counter_bulk_log_size" / bits(5), "flow_counter_bulk" / bits(8),
)

alloc_flow_counter_out = Prm(
    "alloc_flow_counter_out",
    *CMD_OUT, "flow_counter_id" / bits(32), rsvd(32),
)

query_flow_counter_in = Prm(
    "query_flow_counter_in",
    *CMD_IN_NO_UID, rsvd(32), "mkey" / bits(32), "address" / bits(64), "clear" / bits(1),
    "dump_to_memory" / bits(1), rsvd(14), "num_of_counters" / bits(16),
    "flow_counter_id" / bits(32),
)

query_flow_counter_out = Prm(
    "query_flow_counter_out",
    *CMD_OUT, rsvd(64), "flow_statistics" / tail(traffic_counter),
)

dealloc_flow_counter_in = Prm(
    "dealloc_flow_counter_in",
    *CMD_IN_NO_UID, "flow_counter_id" / bits(32), rsvd(32),
)

dealloc_flow_counter_out = Prm("dealloc_flow_counter_out", *CMD_OUT, rsvd(64))

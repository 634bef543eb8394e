"""Flow counters: packets and bytes that matched entries with the action COUNT.

Names and widths: mlx5_ifc.h of Linux 6.12; mlx5_prm.h of DPDK for the dump of user space.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.function.vport import traffic_counter
from layouts.prm import bits, nested, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class alloc_flow_counter_in(CmdInNoUid):
    _ = rsvd(51); flow_counter_bulk_log_size = bits(5); flow_counter_bulk = bits(8)

class alloc_flow_counter_out(CmdOut): flow_counter_id = bits(32); _ = rsvd(32)

class query_flow_counter_in(CmdInNoUid):
    _ = rsvd(32); mkey = bits(32); address = bits(64)
    clear = bits(1); dump_to_memory = bits(1); _ = rsvd(14); num_of_counters = bits(16)
    flow_counter_id = bits(32)

class query_flow_counter_out(CmdOut): _ = rsvd(64); flow_statistics = tail(nested(traffic_counter))
class dealloc_flow_counter_in(CmdInNoUid): flow_counter_id = bits(32); _ = rsvd(32)
class dealloc_flow_counter_out(CmdOut): _ = rsvd(64)

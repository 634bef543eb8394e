"""Device memory (MEMIC): its capability group, and the commands that allocate it.

mlx5_ifc.h leaves increment_sizes and test_and_set_sizes reserved; rdma-core's tests read them
(tests/test_mlx5_dm_ops.py: requires_memic_atomic_support). Bit n: accesses of ``1 << n`` bytes.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class device_mem_cap(Prm):
    memic = bits(1); _ = rsvd(31)
    increment_sizes = bits(8); _ = rsvd(3); log_min_memic_alloc_size = bits(5)
    test_and_set_sizes = bits(8); log_max_memic_addr_alignment = bits(8)
    memic_bar_start_addr = bits(64); memic_bar_size = bits(32); max_memic_size = bits(32)
    steering_sw_icm_start_address = bits(64)
    _ = rsvd(8); log_header_modify_sw_icm_size = bits(8); _ = rsvd(2)
    log_sw_icm_alloc_granularity = bits(6); log_steering_sw_icm_size = bits(8)
    log_indirect_encap_sw_icm_size = bits(8); _ = rsvd(16)
    log_header_modify_pattern_sw_icm_size = bits(8); header_modify_sw_icm_start_address = bits(64)
    _ = rsvd(64); header_modify_pattern_sw_icm_start_address = bits(64); memic_operations = bits(32)
    _ = rsvd(32); indirect_encap_sw_icm_start_address = bits(64); _ = rsvd(1408)

class alloc_memic_in(CmdInNoUid):
    _ = rsvd(56); log_memic_addr_alignment = bits(8); range_start_addr = bits(64)
    range_size = bits(32); memic_size = bits(32)

class alloc_memic_out(CmdOut): memic_start_addr = bits(64)

class dealloc_memic_in(CmdInNoUid):
    _ = rsvd(64); memic_start_addr = bits(64); memic_size = bits(32); _ = rsvd(32)

class dealloc_memic_out(CmdOut): _ = rsvd(64)

class modify_memic_in(CmdIn):
    _ = rsvd(32); _ = rsvd(24); memic_operation_type = bits(8); memic_start_addr = bits(64)
    _ = rsvd(320)

class modify_memic_out(CmdOut): _ = rsvd(64); memic_operation_addr = bits(64); _ = rsvd(320)

"""Device memory (MEMIC): its capability group, and the commands that allocate it.

mlx5_ifc.h leaves increment_sizes and test_and_set_sizes reserved; rdma-core's tests read them
(tests/test_mlx5_dm_ops.py: requires_memic_atomic_support). Bit n: accesses of ``1 << n`` bytes.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

device_mem_cap = Prm(
    "device_mem_cap",
    "memic" / bits(1), rsvd(31), "increment_sizes" / bits(8), rsvd(3),
    "log_min_memic_alloc_size" / bits(5), "test_and_set_sizes" / bits(8),
    "log_max_memic_addr_alignment" / bits(8), "memic_bar_start_addr" / bits(64),
    "memic_bar_size" / bits(32), "max_memic_size" / bits(32),
    "steering_sw_icm_start_address" / bits(64), rsvd(8), "log_header_modify_sw_icm_size" / bits(8),
    rsvd(2), "log_sw_icm_alloc_granularity" / bits(6), "log_steering_sw_icm_size" / bits(8),
    "log_indirect_encap_sw_icm_size" / bits(8), rsvd(16),
    "log_header_modify_pattern_sw_icm_size" / bits(8),
    "header_modify_sw_icm_start_address" / bits(64), rsvd(64),
    "header_modify_pattern_sw_icm_start_address" / bits(64),
    "memic_operations" / bits(32), rsvd(32), "indirect_encap_sw_icm_start_address" / bits(64),
    rsvd(1408),
)

alloc_memic_in = Prm(
    "alloc_memic_in",
    *CMD_IN_NO_UID, rsvd(56), "log_memic_addr_alignment" / bits(8), "range_start_addr" / bits(64),
    "range_size" / bits(32), "memic_size" / bits(32),
)

alloc_memic_out = Prm("alloc_memic_out", *CMD_OUT, "memic_start_addr" / bits(64))

dealloc_memic_in = Prm(
    "dealloc_memic_in",
    *CMD_IN_NO_UID, rsvd(64), "memic_start_addr" / bits(64), "memic_size" / bits(32), rsvd(32),
)

dealloc_memic_out = Prm("dealloc_memic_out", *CMD_OUT, rsvd(64))

modify_memic_in = Prm(
    "modify_memic_in",
    *CMD_IN, rsvd(32), rsvd(24), "memic_operation_type" / bits(8), "memic_start_addr" / bits(64),
    rsvd(320),
)

modify_memic_out = Prm(
    "modify_memic_out",
    *CMD_OUT, rsvd(64), "memic_operation_addr" / bits(64), rsvd(320),
)

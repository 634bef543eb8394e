# Written by scripts/gen-view-types from memic.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class DeviceMemCap(View):
    memic: int
    increment_sizes: int
    log_min_memic_alloc_size: int
    test_and_set_sizes: int
    log_max_memic_addr_alignment: int
    memic_bar_start_addr: int
    memic_bar_size: int
    max_memic_size: int
    steering_sw_icm_start_address: int
    log_header_modify_sw_icm_size: int
    log_sw_icm_alloc_granularity: int
    log_steering_sw_icm_size: int
    log_indirect_encap_sw_icm_size: int
    log_header_modify_pattern_sw_icm_size: int
    header_modify_sw_icm_start_address: int
    header_modify_pattern_sw_icm_start_address: int
    memic_operations: int
    indirect_encap_sw_icm_start_address: int

device_mem_cap: Prm[DeviceMemCap]

class AllocMemicIn(View):
    opcode: int
    op_mod: int
    log_memic_addr_alignment: int
    range_start_addr: int
    range_size: int
    memic_size: int

alloc_memic_in: Prm[AllocMemicIn]

class AllocMemicOut(View):
    status: int
    syndrome: int
    memic_start_addr: int

alloc_memic_out: Prm[AllocMemicOut]

class DeallocMemicIn(View):
    opcode: int
    op_mod: int
    memic_start_addr: int
    memic_size: int

dealloc_memic_in: Prm[DeallocMemicIn]

class DeallocMemicOut(View):
    status: int
    syndrome: int

dealloc_memic_out: Prm[DeallocMemicOut]

class ModifyMemicIn(View):
    opcode: int
    uid: int
    op_mod: int
    memic_operation_type: int
    memic_start_addr: int

modify_memic_in: Prm[ModifyMemicIn]

class ModifyMemicOut(View):
    status: int
    syndrome: int
    memic_operation_addr: int

modify_memic_out: Prm[ModifyMemicOut]

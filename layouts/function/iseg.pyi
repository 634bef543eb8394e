# Written by scripts/gen-view-types from iseg.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm

class HealthBufferRfrSeverity(View):
    rfr: int
    crr: int
    valid: int
    severity: int

class HealthBuffer(View):
    assert_var: Items[int]
    assert_exit_ptr: int
    assert_callra: int
    time: int
    fw_ver: int
    hw_id: int
    rfr_severity: Nested[HealthBufferRfrSeverity]
    irisc_index: int
    synd: int
    ext_synd: int

health_buffer: Prm[HealthBuffer]

class InitSegFwRev(View):
    fw_rev_minor: int
    fw_rev_major: int

class InitSegCmdifRevFwSub(View):
    cmd_interface_rev: int
    fw_rev_subminor: int

class InitSegCmdqAddrLSz(View):
    cmdq_phy_addr_l: int
    nic_interface: int
    log_cmdq_size: int
    log_cmdq_stride: int

class InitSegInitializing(View):
    initializing: int
    fw_reset_supported: int
    nic_interface_supported: int
    embedded_cpu: int

class InitSeg(View):
    fw_rev: Nested[InitSegFwRev]
    cmdif_rev_fw_sub: Nested[InitSegCmdifRevFwSub]
    cmdq_addr_h: int
    cmdq_addr_l_sz: Nested[InitSegCmdqAddrLSz]
    cmd_dbell: int
    initializing: Nested[InitSegInitializing]
    health: Nested[HealthBuffer]
    cmd_exec_to: int
    cmd_q_init_to: int
    internal_timer_h: int
    internal_timer_l: int
    health_counter: int
    real_time_h: int
    real_time_l: int
    ieee1588_clk: int
    ieee1588_clk_type: int
    clr_intx: int

init_seg: Prm[InitSeg]

"""Initialization segment at the start of BAR 0, and the health buffer inside it.

Source: PRM "Initialization segment"; device.h (``mlx5_init_seg``, ``health_buffer``) of Linux 6.12.
Words that the driver's C structure leaves whole are split here into the PRM's fields.
"""

from __future__ import annotations

from layouts.prm import Prm, array, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class health_buffer(Prm, c_name="health_buffer"):
    class rfr_severity_bits(Prm):
        rfr = bits(1); crr = bits(1); _ = rsvd(2); valid = bits(1); severity = bits(3)

    assert_var = array(6, bits(32)); _ = rsvd(64); assert_exit_ptr = bits(32)
    assert_callra = bits(32); _ = rsvd(32); time = bits(32); fw_ver = bits(32); hw_id = bits(32)
    rfr_severity = nested(rfr_severity_bits); _ = rsvd(24)
    irisc_index = bits(8); synd = bits(8); ext_synd = bits(16)

class init_seg(Prm, c_name="mlx5_init_seg"):
    class fw_rev_bits(Prm): fw_rev_minor = bits(16); fw_rev_major = bits(16)

    class cmdif_rev_fw_sub_bits(Prm): cmd_interface_rev = bits(16); fw_rev_subminor = bits(16)

    class cmdq_addr_l_sz_bits(Prm):
        cmdq_phy_addr_l = bits(20); _ = rsvd(1); nic_interface = bits(3); log_cmdq_size = bits(4)
        log_cmdq_stride = bits(4)

    class initializing_bits(Prm):
        initializing = bits(1); fw_reset_supported = bits(1); _ = rsvd(3)
        nic_interface_supported = bits(3); embedded_cpu = bits(1); _ = rsvd(23)

    fw_rev = nested(fw_rev_bits); cmdif_rev_fw_sub = nested(cmdif_rev_fw_sub_bits); _ = rsvd(64)
    cmdq_addr_h = bits(32); cmdq_addr_l_sz = nested(cmdq_addr_l_sz_bits); cmd_dbell = bits(32)
    _ = rsvd(32 * 120); initializing = nested(initializing_bits); health = nested(health_buffer)
    no_dram_nic_offset = bits(32); _ = rsvd(32 * 877)
    cmd_exec_to = bits(32); cmd_q_init_to = bits(32)
    internal_timer_h = bits(32); internal_timer_l = bits(32); _ = rsvd(64)
    health_counter = bits(32); _ = rsvd(32 * 11); real_time_h = bits(32); real_time_l = bits(32)
    _ = rsvd(32 * 1006); ieee1588_clk = bits(64); ieee1588_clk_type = bits(32); clr_intx = bits(32)

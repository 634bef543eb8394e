"""Registers of an Ethernet port: flow control, error correction, loopback, and their capabilities.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class pfcc_reg(Prm):
    _ = rsvd(4); buf_ownership = bits(2); _ = rsvd(2); local_port = bits(8); _ = rsvd(11)
    ppan_mask_n = bits(1); minor_stall_mask = bits(1); critical_stall_mask = bits(1); _ = rsvd(2)
    ppan = bits(4); _ = rsvd(4); prio_mask_tx = bits(8); _ = rsvd(8); prio_mask_rx = bits(8)
    pptx = bits(1); aptx = bits(1); pptx_mask_n = bits(1); _ = rsvd(5); pfctx = bits(8)
    _ = rsvd(16)
    pprx = bits(1); aprx = bits(1); pprx_mask_n = bits(1); _ = rsvd(5); pfcrx = bits(8)
    _ = rsvd(16)
    device_stall_minor_watermark = bits(16); device_stall_critical_watermark = bits(16)
    _ = rsvd(96)

class pplm_reg(Prm):
    _ = rsvd(8); local_port = bits(8); _ = rsvd(48)
    port_profile_mode = bits(8); static_port_profile = bits(8); active_port_profile = bits(8)
    _ = rsvd(8); retransmission_active = bits(8); fec_mode_active = bits(24)
    rs_fec_correction_bypass_cap = bits(4); _ = rsvd(8); fec_override_cap_56g = bits(4)
    fec_override_cap_100g = bits(4); fec_override_cap_50g = bits(4); fec_override_cap_25g = bits(4)
    fec_override_cap_10g_40g = bits(4)
    rs_fec_correction_bypass_admin = bits(4); _ = rsvd(8); fec_override_admin_56g = bits(4)
    fec_override_admin_100g = bits(4); fec_override_admin_50g = bits(4)
    fec_override_admin_25g = bits(4); fec_override_admin_10g_40g = bits(4)
    fec_override_cap_400g_8x = bits(16); fec_override_cap_200g_4x = bits(16)
    fec_override_cap_100g_2x = bits(16); fec_override_cap_50g_1x = bits(16)
    fec_override_admin_400g_8x = bits(16); fec_override_admin_200g_4x = bits(16)
    fec_override_admin_100g_2x = bits(16); fec_override_admin_50g_1x = bits(16)
    fec_override_cap_800g_8x = bits(16); fec_override_cap_400g_4x = bits(16)
    fec_override_cap_200g_2x = bits(16); fec_override_cap_100g_1x = bits(16); _ = rsvd(160)
    fec_override_admin_800g_8x = bits(16); fec_override_admin_400g_4x = bits(16)
    fec_override_admin_200g_2x = bits(16); fec_override_admin_100g_1x = bits(16); _ = rsvd(32)

class pcmr_reg(Prm):
    _ = rsvd(8); local_port = bits(8); _ = rsvd(16)
    entropy_force_cap = bits(1); entropy_calc_cap = bits(1); entropy_gre_calc_cap = bits(1)
    _ = rsvd(15); rx_ts_over_crc_cap = bits(1); _ = rsvd(11); fcs_cap = bits(1); _ = rsvd(1)
    entropy_force = bits(1); entropy_calc = bits(1); entropy_gre_calc = bits(1); _ = rsvd(15)
    rx_ts_over_crc = bits(1); _ = rsvd(11); fcs_chk = bits(1); _ = rsvd(1)

class mlcr_reg(Prm):
    _ = rsvd(8); local_port = bits(8); _ = rsvd(32); beacon_duration = bits(16)
    _ = rsvd(16); beacon_remain = bits(16)

class pcam_enhanced_features(Prm):
    _ = rsvd(72); fec_100G_per_lane_in_pplm = bits(1); _ = rsvd(10); buffer_ownership = bits(1)
    _ = rsvd(20); fec_50G_per_lane_in_pplm = bits(1); _ = rsvd(4)
    rx_icrc_encapsulated_counter = bits(1); _ = rsvd(4); ptys_extended_ethernet = bits(1)
    _ = rsvd(3); pfcc_mask = bits(1); _ = rsvd(3); per_lane_error_counters = bits(1)
    rx_buffer_fullness_counters = bits(1); ptys_connector_type = bits(1); _ = rsvd(1)
    ppcnt_discard_group = bits(1); ppcnt_statistical_group = bits(1)

class pcam_regs_5000_to_507f(Prm):
    _ = rsvd(92); pplm = bits(1); _ = rsvd(22); pbmc = bits(1); pptb = bits(1); _ = rsvd(2)
    ppcnt = bits(1); _ = rsvd(8)

class pcam_reg(Prm):
    _ = rsvd(8); feature_group = bits(8); _ = rsvd(8); access_reg_group = bits(8); _ = rsvd(32)
    port_access_reg_cap_mask = octets(16); _ = rsvd(128); feature_cap_mask = octets(16)
    _ = rsvd(192)

class mcam_enhanced_features(Prm):
    _ = rsvd(80); mtutc_freq_adj_units = bits(1); mtutc_time_adjustment_extended_range = bits(1)
    _ = rsvd(11); mcia_32dwords = bits(1); out_pulse_duration_ns = bits(1); npps_period = bits(1)
    _ = rsvd(10); reset_state = bits(1); ptpcyc2realtime_modify = bits(1); _ = rsvd(2)
    pci_status_and_power = bits(1); _ = rsvd(5); mark_tx_action_cnp = bits(1)
    mark_tx_action_cqe = bits(1); dynamic_tx_overflow = bits(1); _ = rsvd(4)
    pcie_outbound_stalled = bits(1); tx_overflow_buffer_pkt = bits(1)
    mtpps_enh_out_per_adj = bits(1); mtpps_fs = bits(1); pcie_performance_group = bits(1)

class mcam_access_reg(Prm):
    _ = rsvd(28); mcda = bits(1); mcc = bits(1); mcqi = bits(1); mcqs = bits(1)
    _ = rsvd(6); mpir = bits(1); _ = rsvd(2); mpegc = bits(1); mtutc = bits(1); _ = rsvd(17)
    tracer_registers = bits(4)
    _ = rsvd(18); mrtc = bits(1); _ = rsvd(4); mfrl = bits(1); _ = rsvd(29); mtmp = bits(1)
    _ = rsvd(10)

class mcam_reg(Prm):
    _ = rsvd(8); feature_group = bits(8); _ = rsvd(8); access_reg_group = bits(8); _ = rsvd(32)
    mng_access_reg_cap_mask = octets(16); _ = rsvd(128); mng_feature_cap_mask = octets(16)
    _ = rsvd(128)

class qcam_reg(Prm):
    _ = rsvd(8); feature_group = bits(8); _ = rsvd(8); access_reg_group = bits(8); _ = rsvd(32)
    qos_access_reg_cap_mask = octets(16); _ = rsvd(128); qos_feature_cap_mask = octets(16)
    _ = rsvd(128)

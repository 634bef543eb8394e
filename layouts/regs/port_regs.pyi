# Written by scripts/gen-view-types from port_regs.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Octets
from layouts.prm import Prm

class PfccReg(View):
    buf_ownership: int
    local_port: int
    ppan_mask_n: int
    minor_stall_mask: int
    critical_stall_mask: int
    ppan: int
    prio_mask_tx: int
    prio_mask_rx: int
    pptx: int
    aptx: int
    pptx_mask_n: int
    pfctx: int
    pprx: int
    aprx: int
    pprx_mask_n: int
    pfcrx: int
    device_stall_minor_watermark: int
    device_stall_critical_watermark: int

pfcc_reg: Prm[PfccReg]

class PplmReg(View):
    local_port: int
    port_profile_mode: int
    static_port_profile: int
    active_port_profile: int
    retransmission_active: int
    fec_mode_active: int
    rs_fec_correction_bypass_cap: int
    fec_override_cap_56g: int
    fec_override_cap_100g: int
    fec_override_cap_50g: int
    fec_override_cap_25g: int
    fec_override_cap_10g_40g: int
    rs_fec_correction_bypass_admin: int
    fec_override_admin_56g: int
    fec_override_admin_100g: int
    fec_override_admin_50g: int
    fec_override_admin_25g: int
    fec_override_admin_10g_40g: int
    fec_override_cap_400g_8x: int
    fec_override_cap_200g_4x: int
    fec_override_cap_100g_2x: int
    fec_override_cap_50g_1x: int
    fec_override_admin_400g_8x: int
    fec_override_admin_200g_4x: int
    fec_override_admin_100g_2x: int
    fec_override_admin_50g_1x: int
    fec_override_cap_800g_8x: int
    fec_override_cap_400g_4x: int
    fec_override_cap_200g_2x: int
    fec_override_cap_100g_1x: int
    fec_override_admin_800g_8x: int
    fec_override_admin_400g_4x: int
    fec_override_admin_200g_2x: int
    fec_override_admin_100g_1x: int

pplm_reg: Prm[PplmReg]

class PcmrReg(View):
    local_port: int
    entropy_force_cap: int
    entropy_calc_cap: int
    entropy_gre_calc_cap: int
    rx_ts_over_crc_cap: int
    fcs_cap: int
    entropy_force: int
    entropy_calc: int
    entropy_gre_calc: int
    rx_ts_over_crc: int
    fcs_chk: int

pcmr_reg: Prm[PcmrReg]

class MlcrReg(View):
    local_port: int
    beacon_duration: int
    beacon_remain: int

mlcr_reg: Prm[MlcrReg]

class PcamEnhancedFeatures(View):
    fec_100G_per_lane_in_pplm: int
    buffer_ownership: int
    fec_50G_per_lane_in_pplm: int
    rx_icrc_encapsulated_counter: int
    ptys_extended_ethernet: int
    pfcc_mask: int
    per_lane_error_counters: int
    rx_buffer_fullness_counters: int
    ptys_connector_type: int
    ppcnt_discard_group: int
    ppcnt_statistical_group: int

pcam_enhanced_features: Prm[PcamEnhancedFeatures]

class PcamRegs5000To507f(View):
    pplm: int
    pbmc: int
    pptb: int
    ppcnt: int

pcam_regs_5000_to_507f: Prm[PcamRegs5000To507f]

class PcamReg(View):
    feature_group: int
    access_reg_group: int
    port_access_reg_cap_mask: Octets
    feature_cap_mask: Octets

pcam_reg: Prm[PcamReg]

class McamEnhancedFeatures(View):
    mtutc_freq_adj_units: int
    mtutc_time_adjustment_extended_range: int
    mcia_32dwords: int
    out_pulse_duration_ns: int
    npps_period: int
    reset_state: int
    ptpcyc2realtime_modify: int
    pci_status_and_power: int
    mark_tx_action_cnp: int
    mark_tx_action_cqe: int
    dynamic_tx_overflow: int
    pcie_outbound_stalled: int
    tx_overflow_buffer_pkt: int
    mtpps_enh_out_per_adj: int
    mtpps_fs: int
    pcie_performance_group: int

mcam_enhanced_features: Prm[McamEnhancedFeatures]

class McamAccessReg(View):
    mcda: int
    mcc: int
    mcqi: int
    mcqs: int
    mpir: int
    mpegc: int
    mtutc: int
    tracer_registers: int
    mrtc: int
    mfrl: int
    mtmp: int

mcam_access_reg: Prm[McamAccessReg]

class McamReg(View):
    feature_group: int
    access_reg_group: int
    mng_access_reg_cap_mask: Octets
    mng_feature_cap_mask: Octets

mcam_reg: Prm[McamReg]

class QcamReg(View):
    feature_group: int
    access_reg_group: int
    qos_access_reg_cap_mask: Octets
    qos_feature_cap_mask: Octets

qcam_reg: Prm[QcamReg]

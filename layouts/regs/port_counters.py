"""Counter groups of an Ethernet port, read through PPCNT, and of its PCIe link, through MPCNT.

Each group is the content of ppcnt_reg.counter_set for one value of ppcnt_reg.grp. A counter is 64
bits wide, in two halves. IEEE 802.3, RFC 2863, RFC 2819 and RFC 3635 name the standard ones.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class eth_802_3_cntrs_grp_data_layout(Prm):
    a_frames_transmitted_ok_high = bits(32); a_frames_transmitted_ok_low = bits(32)
    a_frames_received_ok_high = bits(32); a_frames_received_ok_low = bits(32)
    a_frame_check_sequence_errors_high = bits(32); a_frame_check_sequence_errors_low = bits(32)
    a_alignment_errors_high = bits(32); a_alignment_errors_low = bits(32)
    a_octets_transmitted_ok_high = bits(32); a_octets_transmitted_ok_low = bits(32)
    a_octets_received_ok_high = bits(32); a_octets_received_ok_low = bits(32)
    a_multicast_frames_xmitted_ok_high = bits(32); a_multicast_frames_xmitted_ok_low = bits(32)
    a_broadcast_frames_xmitted_ok_high = bits(32); a_broadcast_frames_xmitted_ok_low = bits(32)
    a_multicast_frames_received_ok_high = bits(32); a_multicast_frames_received_ok_low = bits(32)
    a_broadcast_frames_received_ok_high = bits(32); a_broadcast_frames_received_ok_low = bits(32)
    a_in_range_length_errors_high = bits(32); a_in_range_length_errors_low = bits(32)
    a_out_of_range_length_field_high = bits(32); a_out_of_range_length_field_low = bits(32)
    a_frame_too_long_errors_high = bits(32); a_frame_too_long_errors_low = bits(32)
    a_symbol_error_during_carrier_high = bits(32); a_symbol_error_during_carrier_low = bits(32)
    a_mac_control_frames_transmitted_high = bits(32)
    a_mac_control_frames_transmitted_low = bits(32); a_mac_control_frames_received_high = bits(32)
    a_mac_control_frames_received_low = bits(32); a_unsupported_opcodes_received_high = bits(32)
    a_unsupported_opcodes_received_low = bits(32); a_pause_mac_ctrl_frames_received_high = bits(32)
    a_pause_mac_ctrl_frames_received_low = bits(32)
    a_pause_mac_ctrl_frames_transmitted_high = bits(32)
    a_pause_mac_ctrl_frames_transmitted_low = bits(32); _ = rsvd(768)

class eth_2863_cntrs_grp_data_layout(Prm):
    if_in_octets_high = bits(32); if_in_octets_low = bits(32); if_in_ucast_pkts_high = bits(32)
    if_in_ucast_pkts_low = bits(32); if_in_discards_high = bits(32); if_in_discards_low = bits(32)
    if_in_errors_high = bits(32); if_in_errors_low = bits(32); if_in_unknown_protos_high = bits(32)
    if_in_unknown_protos_low = bits(32); if_out_octets_high = bits(32); if_out_octets_low = bits(32)
    if_out_ucast_pkts_high = bits(32); if_out_ucast_pkts_low = bits(32)
    if_out_discards_high = bits(32); if_out_discards_low = bits(32); if_out_errors_high = bits(32)
    if_out_errors_low = bits(32); if_in_multicast_pkts_high = bits(32)
    if_in_multicast_pkts_low = bits(32); if_in_broadcast_pkts_high = bits(32)
    if_in_broadcast_pkts_low = bits(32); if_out_multicast_pkts_high = bits(32)
    if_out_multicast_pkts_low = bits(32); if_out_broadcast_pkts_high = bits(32)
    if_out_broadcast_pkts_low = bits(32); _ = rsvd(1152)

class eth_2819_cntrs_grp_data_layout(Prm):
    ether_stats_drop_events_high = bits(32); ether_stats_drop_events_low = bits(32)
    ether_stats_octets_high = bits(32); ether_stats_octets_low = bits(32)
    ether_stats_pkts_high = bits(32); ether_stats_pkts_low = bits(32)
    ether_stats_broadcast_pkts_high = bits(32); ether_stats_broadcast_pkts_low = bits(32)
    ether_stats_multicast_pkts_high = bits(32); ether_stats_multicast_pkts_low = bits(32)
    ether_stats_crc_align_errors_high = bits(32); ether_stats_crc_align_errors_low = bits(32)
    ether_stats_undersize_pkts_high = bits(32); ether_stats_undersize_pkts_low = bits(32)
    ether_stats_oversize_pkts_high = bits(32); ether_stats_oversize_pkts_low = bits(32)
    ether_stats_fragments_high = bits(32); ether_stats_fragments_low = bits(32)
    ether_stats_jabbers_high = bits(32); ether_stats_jabbers_low = bits(32)
    ether_stats_collisions_high = bits(32); ether_stats_collisions_low = bits(32)
    ether_stats_pkts64octets_high = bits(32); ether_stats_pkts64octets_low = bits(32)
    ether_stats_pkts65to127octets_high = bits(32); ether_stats_pkts65to127octets_low = bits(32)
    ether_stats_pkts128to255octets_high = bits(32); ether_stats_pkts128to255octets_low = bits(32)
    ether_stats_pkts256to511octets_high = bits(32); ether_stats_pkts256to511octets_low = bits(32)
    ether_stats_pkts512to1023octets_high = bits(32); ether_stats_pkts512to1023octets_low = bits(32)
    ether_stats_pkts1024to1518octets_high = bits(32)
    ether_stats_pkts1024to1518octets_low = bits(32)
    ether_stats_pkts1519to2047octets_high = bits(32)
    ether_stats_pkts1519to2047octets_low = bits(32)
    ether_stats_pkts2048to4095octets_high = bits(32)
    ether_stats_pkts2048to4095octets_low = bits(32)
    ether_stats_pkts4096to8191octets_high = bits(32)
    ether_stats_pkts4096to8191octets_low = bits(32)
    ether_stats_pkts8192to10239octets_high = bits(32)
    ether_stats_pkts8192to10239octets_low = bits(32); _ = rsvd(640)

class eth_3635_cntrs_grp_data_layout(Prm):
    dot3stats_alignment_errors_high = bits(32); dot3stats_alignment_errors_low = bits(32)
    dot3stats_fcs_errors_high = bits(32); dot3stats_fcs_errors_low = bits(32)
    dot3stats_single_collision_frames_high = bits(32)
    dot3stats_single_collision_frames_low = bits(32)
    dot3stats_multiple_collision_frames_high = bits(32)
    dot3stats_multiple_collision_frames_low = bits(32); dot3stats_sqe_test_errors_high = bits(32)
    dot3stats_sqe_test_errors_low = bits(32); dot3stats_deferred_transmissions_high = bits(32)
    dot3stats_deferred_transmissions_low = bits(32); dot3stats_late_collisions_high = bits(32)
    dot3stats_late_collisions_low = bits(32); dot3stats_excessive_collisions_high = bits(32)
    dot3stats_excessive_collisions_low = bits(32)
    dot3stats_internal_mac_transmit_errors_high = bits(32)
    dot3stats_internal_mac_transmit_errors_low = bits(32)
    dot3stats_carrier_sense_errors_high = bits(32); dot3stats_carrier_sense_errors_low = bits(32)
    dot3stats_frame_too_longs_high = bits(32); dot3stats_frame_too_longs_low = bits(32)
    dot3stats_internal_mac_receive_errors_high = bits(32)
    dot3stats_internal_mac_receive_errors_low = bits(32); dot3stats_symbol_errors_high = bits(32)
    dot3stats_symbol_errors_low = bits(32); dot3control_in_unknown_opcodes_high = bits(32)
    dot3control_in_unknown_opcodes_low = bits(32); dot3in_pause_frames_high = bits(32)
    dot3in_pause_frames_low = bits(32); dot3out_pause_frames_high = bits(32)
    dot3out_pause_frames_low = bits(32); _ = rsvd(960)

class eth_extended_cntrs_grp_data_layout(Prm):
    port_transmit_wait_high = bits(32); port_transmit_wait_low = bits(32); _ = rsvd(256)
    rx_buffer_almost_full_high = bits(32); rx_buffer_almost_full_low = bits(32)
    rx_buffer_full_high = bits(32); rx_buffer_full_low = bits(32)
    rx_icrc_encapsulated_high = bits(32); rx_icrc_encapsulated_low = bits(32); _ = rsvd(1472)

class eth_per_prio_grp_data_layout(Prm):
    rx_octets_high = bits(32); rx_octets_low = bits(32); _ = rsvd(192); rx_frames_high = bits(32)
    rx_frames_low = bits(32); tx_octets_high = bits(32); tx_octets_low = bits(32); _ = rsvd(192)
    tx_frames_high = bits(32); tx_frames_low = bits(32); rx_pause_high = bits(32)
    rx_pause_low = bits(32); rx_pause_duration_high = bits(32); rx_pause_duration_low = bits(32)
    tx_pause_high = bits(32); tx_pause_low = bits(32); tx_pause_duration_high = bits(32)
    tx_pause_duration_low = bits(32); rx_pause_transition_high = bits(32)
    rx_pause_transition_low = bits(32); rx_discards_high = bits(32); rx_discards_low = bits(32)
    device_stall_minor_watermark_cnt_high = bits(32)
    device_stall_minor_watermark_cnt_low = bits(32)
    device_stall_critical_watermark_cnt_high = bits(32)
    device_stall_critical_watermark_cnt_low = bits(32); _ = rsvd(832)

class eth_per_tc_prio_grp_data_layout(Prm):
    transmit_queue_high = bits(32); transmit_queue_low = bits(32)
    no_buffer_discard_uc_high = bits(32); no_buffer_discard_uc_low = bits(32); _ = rsvd(1856)

class eth_per_tc_congest_prio_grp_data_layout(Prm):
    wred_discard_high = bits(32); wred_discard_low = bits(32); ecn_marked_tc_high = bits(32)
    ecn_marked_tc_low = bits(32); _ = rsvd(1856)

class phys_layer_cntrs(Prm):
    time_since_last_clear_high = bits(32); time_since_last_clear_low = bits(32)
    symbol_errors_high = bits(32); symbol_errors_low = bits(32); sync_headers_errors_high = bits(32)
    sync_headers_errors_low = bits(32); edpl_bip_errors_lane0_high = bits(32)
    edpl_bip_errors_lane0_low = bits(32); edpl_bip_errors_lane1_high = bits(32)
    edpl_bip_errors_lane1_low = bits(32); edpl_bip_errors_lane2_high = bits(32)
    edpl_bip_errors_lane2_low = bits(32); edpl_bip_errors_lane3_high = bits(32)
    edpl_bip_errors_lane3_low = bits(32); fc_fec_corrected_blocks_lane0_high = bits(32)
    fc_fec_corrected_blocks_lane0_low = bits(32); fc_fec_corrected_blocks_lane1_high = bits(32)
    fc_fec_corrected_blocks_lane1_low = bits(32); fc_fec_corrected_blocks_lane2_high = bits(32)
    fc_fec_corrected_blocks_lane2_low = bits(32); fc_fec_corrected_blocks_lane3_high = bits(32)
    fc_fec_corrected_blocks_lane3_low = bits(32); fc_fec_uncorrectable_blocks_lane0_high = bits(32)
    fc_fec_uncorrectable_blocks_lane0_low = bits(32)
    fc_fec_uncorrectable_blocks_lane1_high = bits(32)
    fc_fec_uncorrectable_blocks_lane1_low = bits(32)
    fc_fec_uncorrectable_blocks_lane2_high = bits(32)
    fc_fec_uncorrectable_blocks_lane2_low = bits(32)
    fc_fec_uncorrectable_blocks_lane3_high = bits(32)
    fc_fec_uncorrectable_blocks_lane3_low = bits(32); rs_fec_corrected_blocks_high = bits(32)
    rs_fec_corrected_blocks_low = bits(32); rs_fec_uncorrectable_blocks_high = bits(32)
    rs_fec_uncorrectable_blocks_low = bits(32); rs_fec_no_errors_blocks_high = bits(32)
    rs_fec_no_errors_blocks_low = bits(32); rs_fec_single_error_blocks_high = bits(32)
    rs_fec_single_error_blocks_low = bits(32); rs_fec_corrected_symbols_total_high = bits(32)
    rs_fec_corrected_symbols_total_low = bits(32); rs_fec_corrected_symbols_lane0_high = bits(32)
    rs_fec_corrected_symbols_lane0_low = bits(32); rs_fec_corrected_symbols_lane1_high = bits(32)
    rs_fec_corrected_symbols_lane1_low = bits(32); rs_fec_corrected_symbols_lane2_high = bits(32)
    rs_fec_corrected_symbols_lane2_low = bits(32); rs_fec_corrected_symbols_lane3_high = bits(32)
    rs_fec_corrected_symbols_lane3_low = bits(32); link_down_events = bits(32)
    successful_recovery_events = bits(32); _ = rsvd(384)

class phys_layer_statistical_cntrs(Prm):
    time_since_last_clear_high = bits(32); time_since_last_clear_low = bits(32)
    phy_received_bits_high = bits(32); phy_received_bits_low = bits(32)
    phy_symbol_errors_high = bits(32); phy_symbol_errors_low = bits(32)
    phy_corrected_bits_high = bits(32); phy_corrected_bits_low = bits(32)
    phy_corrected_bits_lane0_high = bits(32); phy_corrected_bits_lane0_low = bits(32)
    phy_corrected_bits_lane1_high = bits(32); phy_corrected_bits_lane1_low = bits(32)
    phy_corrected_bits_lane2_high = bits(32); phy_corrected_bits_lane2_low = bits(32)
    phy_corrected_bits_lane3_high = bits(32); phy_corrected_bits_lane3_low = bits(32)
    _ = rsvd(1472)

class pcie_perf_cntrs_grp_data_layout(Prm):
    life_time_counter_high = bits(32); life_time_counter_low = bits(32); rx_errors = bits(32)
    tx_errors = bits(32); l0_to_recovery_eieos = bits(32); l0_to_recovery_ts = bits(32)
    l0_to_recovery_framing = bits(32); l0_to_recovery_retrain = bits(32); crc_error_dllp = bits(32)
    crc_error_tlp = bits(32); tx_overflow_buffer_pkt_high = bits(32)
    tx_overflow_buffer_pkt_low = bits(32); outbound_stalled_reads = bits(32)
    outbound_stalled_writes = bits(32); outbound_stalled_reads_events = bits(32)
    outbound_stalled_writes_events = bits(32); _ = rsvd(1472)

class mpcnt_reg(Prm):
    _ = rsvd(8); pcie_index = bits(8); _ = rsvd(10); grp = bits(6); clr = bits(1); _ = rsvd(31)
    counter_set = octets(248)

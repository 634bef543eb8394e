"""Counters that a driver can read and that are always 0, each with the reason.

All others are counted; ``unit/test_uncounted.py`` walks the structures. Counter groups that
are refused, and fields whose capability is not set, are not listed: no driver reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

_NO_NOISE = "the link has no bit errors, and corrects none"
_FULL_DUPLEX = "a full-duplex link has no collisions and never defers"
_NO_QUEUE = "no frame waits in the port: paused send queues keep frames in their rings"
_NO_BUFFER = "no frame waits in the port: the receive queue gets it at once, or it is dropped"
_NO_LANES = "there are no virtual lanes, and no credits to wait for"

UNCOUNTED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "query_q_counter_out": {
        "slow restart is not offered (ROCE_ACCL: roce_slow_restart_field_select)": (
            "roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans",
        ),
    },
    "vnic_diagnostic_statistics": {
        "its capability is not set": (
            "counter_error_queues", "total_error_queues", "send_queue_priority_update_flow",
            "quota_exceeded_command", "internal_rq_out_of_buffer", "generated_pkt_steering_fail",
            "handled_pkt_steering_fail",
        ),
    },
    "query_vport_counter_out": {
        "packets with errors end at the physical port, which counts them": (
            "received_errors", "transmit_errors",
        ),
    },
    "eth_802_3_cntrs_grp_data_layout": {
        _NO_NOISE: ("a_alignment_errors", "a_symbol_error_during_carrier"),
        "type fields that are lengths are for the receiver's software": (
            "a_in_range_length_errors", "a_out_of_range_length_field",
        ),
    },
    "eth_2863_cntrs_grp_data_layout": {
        "all protocols are accepted: flow tables count the frames that they discard": (
            "if_in_unknown_protos",
        ),
    },
    "eth_2819_cntrs_grp_data_layout": {
        _NO_NOISE: ("ether_stats_fragments", "ether_stats_jabbers"),
        _FULL_DUPLEX: ("ether_stats_collisions",),
        "a frame below the minimum size is taken for one without padding": (
            "ether_stats_undersize_pkts",
        ),
    },
    "eth_3635_cntrs_grp_data_layout": {
        _NO_NOISE: (
            "dot3stats_alignment_errors", "dot3stats_symbol_errors",
            "dot3stats_carrier_sense_errors", "dot3stats_sqe_test_errors",
        ),
        _FULL_DUPLEX: (
            "dot3stats_single_collision_frames", "dot3stats_multiple_collision_frames",
            "dot3stats_late_collisions", "dot3stats_excessive_collisions",
            "dot3stats_deferred_transmissions",
        ),
        "the function stops as a whole when it fails": (
            "dot3stats_internal_mac_transmit_errors", "dot3stats_internal_mac_receive_errors",
        ),
    },
    "eth_extended_cntrs_grp_data_layout": {
        _NO_QUEUE: ("port_transmit_wait",),
        _NO_BUFFER: ("rx_buffer_almost_full", "rx_buffer_full"),
        "no driver reads it": ("rx_icrc_encapsulated",),
    },
    "eth_per_tc_prio_grp_data_layout": {
        _NO_QUEUE: ("transmit_queue",),
        _NO_BUFFER: ("no_buffer_discard_uc",),
    },
    "eth_per_tc_congest_prio_grp_data_layout": {
        _NO_QUEUE: ("wred_discard", "ecn_marked_tc"),
    },
    "phys_layer_cntrs": {
        _NO_NOISE: (
            "symbol_errors", "sync_headers_errors", "edpl_bip_errors_lane0",
            "edpl_bip_errors_lane1", "edpl_bip_errors_lane2", "edpl_bip_errors_lane3",
            "fc_fec_corrected_blocks_lane0", "fc_fec_corrected_blocks_lane1",
            "fc_fec_corrected_blocks_lane2", "fc_fec_corrected_blocks_lane3",
            "fc_fec_uncorrectable_blocks_lane0", "fc_fec_uncorrectable_blocks_lane1",
            "fc_fec_uncorrectable_blocks_lane2", "fc_fec_uncorrectable_blocks_lane3",
            "rs_fec_corrected_blocks", "rs_fec_uncorrectable_blocks",
            "rs_fec_single_error_blocks", "rs_fec_corrected_symbols_total",
            "rs_fec_corrected_symbols_lane0", "rs_fec_corrected_symbols_lane1",
            "rs_fec_corrected_symbols_lane2", "rs_fec_corrected_symbols_lane3",
            "successful_recovery_events",
        ),
        "frames are not coded into blocks": ("rs_fec_no_errors_blocks",),
        "no driver reads it": ("time_since_last_clear",),
    },
    "phys_layer_statistical_cntrs": {
        _NO_NOISE: (
            "phy_symbol_errors", "phy_corrected_bits", "phy_corrected_bits_lane0",
            "phy_corrected_bits_lane1", "phy_corrected_bits_lane2", "phy_corrected_bits_lane3",
        ),
        "no driver reads it": ("time_since_last_clear", "phy_received_bits"),
    },
    "ib_port_cntrs_grp_data_layout": {
        _NO_NOISE: ("port_rcv_remote_physical_errors",),
        "only switches count it": (
            "port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
            "port_rcv_constraint_errors", "port_xmit_discards",
        ),
        _NO_LANES: ("vl_15_dropped", "port_xmit_wait"),
    },
    "pma_portcounters": {
        _NO_NOISE: ("port_rcv_remphys_errors",),
        "only switches count it": (
            "port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
            "port_rcv_constraint_errors", "port_xmit_discards",
        ),
        _NO_LANES: ("vl15_dropped", "port_xmit_wait"),
    },
    "query_cong_statistics_out": {
        "the counters are exact: nothing is accumulated over a period": (
            "accumulators_period", "time_stamp", "sum_flows",
        ),
    },
}  # fmt: skip
"""Counters by structure and reason, without "_high" and "_low" in their names."""

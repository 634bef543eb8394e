"""Capability pages: what QUERY_HCA_CAP answers and SET_HCA_CAP stores (PRM "HCA capabilities").

A page is 4096 bytes; each group fills its front. ``op_mod`` is ``group << 1 | mode``, mode 0 for
the maximum and 1 for the current values.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

query_hca_cap_in = Prm(
    "query_hca_cap_in",
    *CMD_IN_NO_UID, "other_function" / bits(1), "ec_vf_function" / bits(1), rsvd(14),
    "function_id" / bits(16), rsvd(32),
)

query_hca_cap_out = Prm(
    "query_hca_cap_out",
    *CMD_OUT, rsvd(64), "capability" / octets(4096),  # one of the groups below
)

set_hca_cap_in = Prm(
    "set_hca_cap_in",
    *CMD_IN_NO_UID, "other_function" / bits(1), "ec_vf_function" / bits(1), rsvd(14),
    "function_id" / bits(16), rsvd(32), "capability" / octets(4096),  # one of the groups below
)

set_hca_cap_out = Prm("set_hca_cap_out", *CMD_OUT, rsvd(64))

cmd_hca_cap = Prm(
    "cmd_hca_cap",
    rsvd(6), "page_request_disable" / bits(1), rsvd(9),
    "shared_object_to_user_object_allowed" / bits(1), rsvd(14), "vhca_resource_manager" / bits(1),
    "hca_cap_2" / bits(1), "create_lag_when_not_master_up" / bits(1), "dtor" / bits(1),
    "event_on_vhca_state_teardown_request" / bits(1), "event_on_vhca_state_in_use" / bits(1),
    "event_on_vhca_state_active" / bits(1), "event_on_vhca_state_allocated" / bits(1),
    "event_on_vhca_state_invalid" / bits(1), rsvd(8), "vhca_id" / bits(16), rsvd(43),
    "log_dma_mmo_max_size" / bits(5), rsvd(16),
    "log_max_srq_sz" / bits(8), "log_max_qp_sz" / bits(8), "event_cap" / bits(1), rsvd(2),
    "isolate_vl_tc_new" / bits(1), rsvd(4), "prio_tag_required" / bits(1), rsvd(2),
    "log_max_qp" / bits(5), rsvd(3), "ece_support" / bits(1), rsvd(5), "reg_c_preserve" / bits(1),
    rsvd(1), "log_max_srq" / bits(5), rsvd(1), "uplink_follow" / bits(1),
    "ts_cqe_to_dest_cqn" / bits(1), rsvd(6), "go_back_n" / bits(1), rsvd(6),
    "max_sgl_for_optimized_performance" / bits(8), "log_max_cq_sz" / bits(8),
    "relaxed_ordering_write_umr" / bits(1), "relaxed_ordering_read_umr" / bits(1), rsvd(7),
    "virtio_net_device_emualtion_manager" / bits(1),
    "virtio_blk_device_emualtion_manager" / bits(1), "log_max_cq" / bits(5),
    "log_max_eq_sz" / bits(8), "relaxed_ordering_write" / bits(1),
    "relaxed_ordering_read_pci_enabled" / bits(1), "log_max_mkey" / bits(6), rsvd(6),
    "terminate_scatter_list_mkey" / bits(1), "repeated_mkey" / bits(1), "dump_fill_mkey" / bits(1),
    rsvd(2), "fast_teardown" / bits(1), "log_max_eq" / bits(4), "max_indirection" / bits(8),
    "fixed_buffer_size" / bits(1), "log_max_mrw_sz" / bits(7), "force_teardown" / bits(1), rsvd(1),
    "log_max_bsf_list_size" / bits(6), "umr_extended_translation_offset" / bits(1),
    "null_mkey" / bits(1), "log_max_klm_list_size" / bits(6), rsvd(2), "qpc_extension" / bits(1),
    rsvd(7), "log_max_ra_req_dc" / bits(6), rsvd(2), "eth_wqe_too_small" / bits(1), rsvd(6),
    "vnic_env_cq_overrun" / bits(1), "log_max_ra_res_dc" / bits(6), rsvd(5),
    "release_all_pages" / bits(1), "must_not_use" / bits(1), "sig_crc64_xp10" / bits(1),
    "sig_crc32c" / bits(1), "roce_accl" / bits(1),
    "log_max_ra_req_qp" / bits(6), rsvd(1), "rts2rts_qp_udp_sport" / bits(1), rsvd(8),
    "log_max_ra_res_qp" / bits(6), "end_pad" / bits(1),
    "cc_query_allowed" / bits(1), "cc_modify_allowed" / bits(1), "start_pad" / bits(1),
    "cache_line_128byte" / bits(1), rsvd(4), "rts2rts_qp_counters_set_id" / bits(1), rsvd(2),
    "vnic_env_int_rq_oob" / bits(1), "sbcam_reg" / bits(1), rsvd(1), "qcam_reg" / bits(1),
    "gid_table_size" / bits(16), "out_of_seq_cnt" / bits(1), "vport_counters" / bits(1),
    "retransmission_q_counters" / bits(1), "debug" / bits(1), "modify_rq_counter_set_id" / bits(1),
    "rq_delay_drop" / bits(1), "max_qp_cnt" / bits(10), "pkey_table_size" / bits(16),
    "vport_group_manager" / bits(1), "vhca_group_manager" / bits(1), "ib_virt" / bits(1),
    "eth_virt" / bits(1), "vnic_env_queue_counters" / bits(1), "ets" / bits(1),
    "nic_flow_table" / bits(1), "eswitch_manager" / bits(1), "device_memory" / bits(1),
    "mcam_reg" / bits(1), "pcam_reg" / bits(1), "local_ca_ack_delay" / bits(5),
    "port_module_event" / bits(1), "enhanced_error_q_counters" / bits(1), "ports_check" / bits(1),
    rsvd(1), "disable_link_up" / bits(1), "beacon_led" / bits(1), "port_type" / bits(2),
    "num_ports" / bits(8), rsvd(1), "pps" / bits(1), "pps_modify" / bits(1),
    "log_max_msg" / bits(5), rsvd(4), "max_tc" / bits(4), "temp_warn_event" / bits(1),
    "dcbx" / bits(1), "general_notification_event" / bits(1), rsvd(2), "fpga" / bits(1),
    "rol_s" / bits(1), "rol_g" / bits(1), rsvd(1), "wol_s" / bits(1), "wol_g" / bits(1),
    "wol_a" / bits(1), "wol_b" / bits(1), "wol_m" / bits(1), "wol_u" / bits(1), "wol_p" / bits(1),
    "stat_rate_support" / bits(16), "sig_block_4048" / bits(1),
    "pci_sync_for_fw_update_event" / bits(1), rsvd(6),
    "init2_lag_tx_port_affinity" / bits(1), rsvd(2), "wqe_based_flow_table_update_cap" / bits(1),
    "cqe_version" / bits(4), "compact_address_vector" / bits(1), "striding_rq" / bits(1), rsvd(1),
    "ipoib_enhanced_offloads" / bits(1), "ipoib_basic_offloads" / bits(1), rsvd(1),
    "repeated_block_disabled" / bits(1), "umr_modify_entity_size_disabled" / bits(1),
    "umr_modify_atomic_disabled" / bits(1), "umr_indirect_mkey_disabled" / bits(1),
    "umr_fence" / bits(2), "dc_req_scat_data_cqe" / bits(1), rsvd(2), "drain_sigerr" / bits(1),
    "cmdif_checksum" / bits(2), "sigerr_cqe" / bits(1), rsvd(1), "wq_signature" / bits(1),
    "sctr_data_cqe" / bits(1), rsvd(1), "sho" / bits(1), "tph" / bits(1), "rf" / bits(1),
    "dct" / bits(1), "qos" / bits(1), "eth_net_offloads" / bits(1), "roce" / bits(1),
    "atomic" / bits(1), rsvd(1), "cq_oi" / bits(1), "cq_resize" / bits(1),
    "cq_moderation" / bits(1), "cq_period_mode_modify" / bits(1), rsvd(2), "cq_eq_remap" / bits(1),
    "pg" / bits(1), "block_lb_mc" / bits(1), rsvd(1), "scqe_break_moderation" / bits(1),
    "cq_period_start_from_cqe" / bits(1), "cd" / bits(1), rsvd(1), "apm" / bits(1),
    "vector_calc" / bits(1), "umr_ptr_rlky" / bits(1), "imaicl" / bits(1),
    "qp_packet_based" / bits(1), rsvd(3), "qkv" / bits(1), "pkv" / bits(1),
    "set_deth_sqpn" / bits(1), rsvd(3), "xrc" / bits(1), "ud" / bits(1), "uc" / bits(1),
    "rc" / bits(1), "uar_4k" / bits(1), rsvd(7), "fl_rc_qp_when_roce_disabled" / bits(1),
    "regexp_params" / bits(1), "uar_sz" / bits(6), "port_selection_cap" / bits(1), rsvd(1),
    "umem_uid_0" / bits(1), rsvd(5), "log_pg_sz" / bits(8), "bf" / bits(1),
    "driver_version" / bits(1), "pad_tx_eth_packet" / bits(1), rsvd(3), "mkey_by_name" / bits(1),
    rsvd(4), "log_bf_reg_size" / bits(5), rsvd(3), "qp_error_syndrome" / bits(1), rsvd(2),
    "lag_dct" / bits(2), "lag_tx_port_affinity" / bits(1), "lag_native_fdb_selection" / bits(1),
    rsvd(1), "lag_master" / bits(1), "num_lag_ports" / bits(4), rsvd(16),
    "max_wqe_sz_sq" / bits(16), rsvd(11), "shampo" / bits(1), rsvd(4), "max_wqe_sz_rq" / bits(16),
    "max_flow_counter_31_16" / bits(16), "max_wqe_sz_sq_dc" / bits(16), rsvd(7),
    "max_qp_mcg" / bits(25), rsvd(16), "flow_counter_bulk_alloc" / bits(8),
    "log_max_mcg" / bits(8), rsvd(3), "log_max_transport_domain" / bits(5), rsvd(2),
    "relaxed_ordering_read" / bits(1), "log_max_pd" / bits(5),
    "dp_ordering_ooo_all_ud" / bits(1), "dp_ordering_ooo_all_uc" / bits(1),
    "dp_ordering_ooo_all_xrc" / bits(1), "dp_ordering_ooo_all_dc" / bits(1),
    "dp_ordering_ooo_all_rc" / bits(1),
    "pcie_reset_using_hotreset_method" / bits(1),
    "pci_sync_for_fw_update_with_driver_unload" / bits(1), "vnic_env_cnt_steering_fail" / bits(1),
    "vport_counter_local_loopback" / bits(1), "q_counter_aggregation" / bits(1),
    "q_counter_other_vport" / bits(1), "log_max_xrcd" / bits(5),
    "nic_receive_steering_discard" / bits(1), "receive_discard_vport_down" / bits(1),
    "transmit_discard_vport_down" / bits(1), "eq_overrun_count" / bits(1), rsvd(1),
    "invalid_command_count" / bits(1), "quota_exceeded_count" / bits(1), rsvd(1),
    "log_max_flow_counter_bulk" / bits(8), "max_flow_counter_15_0" / bits(16), rsvd(3),
    "log_max_rq" / bits(5), rsvd(3), "log_max_sq" / bits(5), rsvd(3), "log_max_tir" / bits(5),
    rsvd(3), "log_max_tis" / bits(5), "basic_cyclic_rcv_wqe" / bits(1), rsvd(2),
    "log_max_rmp" / bits(5), rsvd(3), "log_max_rqt" / bits(5), rsvd(3),
    "log_max_rqt_size" / bits(5), rsvd(3), "log_max_tis_per_sq" / bits(5),
    "ext_stride_num_range" / bits(1), "roce_rw_supported" / bits(1),
    "log_max_current_uc_list_wr_supported" / bits(1), "log_max_stride_sz_rq" / bits(5), rsvd(3),
    "log_min_stride_sz_rq" / bits(5), rsvd(3), "log_max_stride_sz_sq" / bits(5), rsvd(3),
    "log_min_stride_sz_sq" / bits(5), "hairpin" / bits(1), rsvd(2),
    "log_max_hairpin_queues" / bits(5), rsvd(3), "log_max_hairpin_wq_data_sz" / bits(5), rsvd(3),
    "log_max_hairpin_num_packets" / bits(5), rsvd(3), "log_max_wq_sz" / bits(5),
    "nic_vport_change_event" / bits(1), "disable_local_lb_uc" / bits(1),
    "disable_local_lb_mc" / bits(1), "log_min_hairpin_wq_data_sz" / bits(5), rsvd(1),
    "silent_mode" / bits(1), "vhca_state" / bits(1), "log_max_vlan_list" / bits(5), rsvd(1),
    "aes_xts_single_block_le_tweak" / bits(1), "aes_xts_multi_block_be_tweak" / bits(1),
    "log_max_current_mc_list" / bits(5), rsvd(3), "log_max_current_uc_list" / bits(5),
    "general_obj_types" / bits(64), "sq_ts_format" / bits(2), "rq_ts_format" / bits(2),
    "steering_format_version" / bits(4), "create_qp_start_hint" / bits(24), rsvd(1),
    "ats" / bits(1), "cross_vhca_rqt" / bits(1), "log_max_uctx" / bits(5), rsvd(1),
    "crypto" / bits(1), "ipsec_offload" / bits(1), "log_max_umem" / bits(5),
    "max_num_eqs" / bits(16), "sigerr_domain_and_sig_type" / bits(1), "tls_tx" / bits(1),
    "tls_rx" / bits(1), "log_max_l2_table" / bits(5), rsvd(8), "log_uar_page_sz" / bits(16),
    rsvd(32),
    "device_frequency_mhz" / bits(32), "device_frequency_khz" / bits(32), rsvd(32),
    "num_of_uars_per_page" / bits(32), "flex_parser_protocols" / bits(32),
    "max_geneve_tlv_options" / bits(8), rsvd(3), "max_geneve_tlv_option_data_len" / bits(5),
    rsvd(9), "adv_virtualization" / bits(1), rsvd(17), "log_max_dci_stream_channels" / bits(5),
    rsvd(3), "log_max_dci_errored_streams" / bits(5), rsvd(24),
    "enhanced_cqe_compression" / bits(1), rsvd(1), "crossing_vhca_mkey" / bits(1),
    "log_max_dek" / bits(5), rsvd(1), "mini_cqe_resp_l3_l4_tag" / bits(1),
    "mini_cqe_resp_flow_tag" / bits(1), rsvd(1), "mini_cqe_resp_stride_index" / bits(1),
    "cqe_128_always" / bits(1), "cqe_compression_128" / bits(1), "cqe_compression" / bits(1),
    "cqe_compression_timeout" / bits(16), "cqe_compression_max_num" / bits(16), rsvd(8),
    "flex_parser_id_gtpu_dw_0" / bits(4), rsvd(4), "tag_matching" / bits(1),
    "rndv_offload_rc" / bits(1), "rndv_offload_dc" / bits(1), "log_tag_matching_list_sz" / bits(5),
    rsvd(3), "log_max_xrq" / bits(5), "affiliate_nic_vport_criteria" / bits(8),
    "native_port_num" / bits(8), "num_vhca_ports" / bits(8), "flex_parser_id_gtpu_teid" / bits(4),
    rsvd(2), "sw_owner_id" / bits(1), rsvd(1), "max_num_of_monitor_counters" / bits(16),
    "num_ppcnt_monitor_counters" / bits(16), "max_num_sf" / bits(16),
    "num_q_monitor_counters" / bits(16), rsvd(32), "sf" / bits(1), "sf_set_partition" / bits(1),
    rsvd(1), "log_max_sf" / bits(5), "apu" / bits(1), rsvd(4), "migration" / bits(1), rsvd(2),
    "log_min_sf_size" / bits(8), "max_num_sf_partitions" / bits(8), "uctx_cap" / bits(32), rsvd(4),
    "flex_parser_id_geneve_tlv_option_0" / bits(4), "flex_parser_id_icmp_dw1" / bits(4),
    "flex_parser_id_icmp_dw0" / bits(4), "flex_parser_id_icmpv6_dw1" / bits(4),
    "flex_parser_id_icmpv6_dw0" / bits(4), "flex_parser_id_outer_first_mpls_over_gre" / bits(4),
    "flex_parser_id_outer_first_mpls_over_udp_label" / bits(4), "max_num_match_definer" / bits(16),
    "sf_base_id" / bits(16), "flex_parser_id_gtpu_dw_2" / bits(4),
    "flex_parser_id_gtpu_first_ext_dw_0" / bits(4), "num_total_dynamic_vf_msix" / bits(24),
    rsvd(20), "dynamic_msix_table_size" / bits(12), rsvd(8), "dma_mmo_qp" / bits(1), rsvd(3),
    "min_dynamic_vf_msix_table_size" / bits(4), rsvd(2), "data_direct" / bits(1), rsvd(1),
    "max_dynamic_vf_msix_table_size" / bits(12), rsvd(3),
    "log_max_num_header_modify_argument" / bits(5),
    "log_header_modify_argument_granularity_offset" / bits(4),
    "log_header_modify_argument_granularity" / bits(4), rsvd(3),
    "log_header_modify_argument_max_alloc" / bits(5), rsvd(8), "vhca_tunnel_commands" / bits(64),
    "match_definer_format_supported" / bits(64),
)

odp_per_transport_service_cap = Prm(
    "odp_per_transport_service_cap",
    "send" / bits(1), "receive" / bits(1), "write" / bits(1), "read" / bits(1), "atomic" / bits(1),
    "srq_receive" / bits(1), rsvd(26),
)

odp_scheme_cap = Prm(
    "odp_scheme_cap",
    rsvd(64), "sig" / bits(1), rsvd(4), "page_prefetch" / bits(1), rsvd(58),
    "rc_odp_caps" / odp_per_transport_service_cap, "uc_odp_caps" / odp_per_transport_service_cap,
    "ud_odp_caps" / odp_per_transport_service_cap, "xrc_odp_caps" / odp_per_transport_service_cap,
    "dc_odp_caps" / odp_per_transport_service_cap, rsvd(224),
)

odp_cap = Prm(
    "odp_cap",
    "transport_page_fault_scheme_cap" / odp_scheme_cap,
    "memory_page_fault_scheme_cap" / odp_scheme_cap, rsvd(512), "mem_page_fault" / bits(1),
    rsvd(511),
)

atomic_caps = Prm(
    "atomic_caps",
    rsvd(64), "atomic_req_8B_endianness_mode" / bits(2), rsvd(4),
    "supported_atomic_req_8B_endianness_mode_1" / bits(1), rsvd(73),
    "atomic_operations" / bits(16), rsvd(16), "atomic_size_qp" / bits(16), rsvd(16),
    "atomic_size_dc" / bits(16), rsvd(1824),
)

cmd_hca_cap_2 = Prm(
    "cmd_hca_cap_2",
    rsvd(128), "migratable" / bits(1), rsvd(7), "dp_ordering_force" / bits(1), rsvd(9),
    "query_vuid" / bits(1), rsvd(5),
    "umr_log_entity_size_5" / bits(1), rsvd(7), "max_reformat_insert_size" / bits(8),
    "max_reformat_insert_offset" / bits(8), "max_reformat_remove_size" / bits(8),
    "max_reformat_remove_offset" / bits(8), rsvd(8), "migration_multi_load" / bits(1),
    "migration_tracking_state" / bits(1), "multiplane_qp_ud" / bits(1), rsvd(5),
    "migration_in_chunks" / bits(1), rsvd(1), "sf_eq_usage" / bits(1), rsvd(5),
    "multiplane" / bits(1), rsvd(7), "cross_vhca_object_to_object_supported" / bits(32),
    "allowed_object_for_other_vhca_access" / bits(64), rsvd(96),
    "flow_table_type_2_type" / bits(8), rsvd(2), "format_select_dw_8_6_ext" / bits(1),
    "log_min_mkey_entity_size" / bits(5), rsvd(113), "sw_vhca_id_valid" / bits(1),
    "sw_vhca_id" / bits(14), rsvd(27), "ts_cqe_metadata_size2wqe_counter" / bits(5), rsvd(48),
    "format_select_dw_gtpu_dw_0" / bits(8), "format_select_dw_gtpu_dw_1" / bits(8),
    "format_select_dw_gtpu_dw_2" / bits(8), "format_select_dw_gtpu_first_ext_dw_0" / bits(8),
    "generate_wqe_type" / bits(32), rsvd(203), "min_mkey_log_entity_size_fixed_buffer" / bits(5),
    "ec_vf_vport_base" / bits(16), rsvd(2), "max_mkey_log_entity_size_fixed_buffer" / bits(6),
    rsvd(2), "max_mkey_log_entity_size_mtt" / bits(6), "max_rqt_vhca_id" / bits(16), rsvd(48),
    "pcc_ifa2" / bits(1), rsvd(16), "min_mkey_log_entity_size_fixed_buffer_valid" / bits(1),
    rsvd(14), "return_reg_id" / bits(16), rsvd(28),
    "flow_table_hash_type" / bits(4), rsvd(8), "max_num_eqs_24b" / bits(24), rsvd(928),
)

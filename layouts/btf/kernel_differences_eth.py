"""Known differences between kernels and the structures of the Ethernet port, with reasons.

The entries extend the list of :mod:`layouts.btf.kernel_differences`.
"""

from __future__ import annotations

from layouts.btf.known import NO_TYPE, RESERVED, Known, known
from layouts.btf.report import What

_NO_TC = "Debian's kernels are built without offload of tc's actions (MLX5_CLS_ACT, MLX5_TC_SAMPLE)"

KNOWN_ETH: tuple[Known, ...] = known(
    {
        ("", What.STRUCTURE): {
            NO_TYPE: """
                add_vxlan_udp_dport_out dealloc_flow_counter_out dealloc_modify_header_context_out
                dealloc_packet_reformat_context_out delete_fte_out delete_l2_table_entry_out
                delete_vxlan_udp_dport_out destroy_flow_group_out destroy_flow_table_out
                destroy_rq_out destroy_rqt_out destroy_sq_out destroy_tir_out destroy_tis_out
                modify_flow_table_out modify_cong_params_out modify_cong_status_in
                modify_cong_status_out modify_esw_vport_context_out modify_nic_vport_context_out
                modify_rq_out modify_rqt_out modify_sq_out modify_tir_out modify_tis_out
                modify_vport_state_out query_flow_counter_out query_flow_group_out
                query_cong_params_out query_cong_statistics_out query_cong_status_in
                query_cong_status_out query_fte_out query_packet_reformat_context_out query_rq_out
                query_rqt_out query_sq_out query_tir_out query_tis_out set_flow_table_root_out
                set_fte_out set_l2_table_entry_out set_roce_address_out set_wol_rol_out
                destroy_scheduling_element_out modify_scheduling_element_out
                query_scheduling_element_out set_pp_rate_limit_out sync_steering_out
            """,
            "Debian's kernels are built without sub-functions (MLX5_SF)": """
                alloc_sf_in alloc_sf_out dealloc_sf_in dealloc_sf_out modify_vhca_state_in
                modify_vhca_state_out query_vhca_state_in query_vhca_state_out vhca_state_context
                vhca_state_field_select
            """,
            "rdma-core's own: the driver matches no such header": "ste_ib_l4",
        },
        ("", What.FIELD): {
            "DPDK names these bits; the kernel leaves them reserved and forwards them": """
                cmd_hca_cap: flow_counters_dump
                query_flow_counter_in: mkey address dump_to_memory
            """,
            "the driver has a union here, of which this is the one for the firmware's own causes": (
                "pddr_troubleshooting_page: monitor_opcode"
            ),
        },
        ("6.1", What.STRUCTURE): {
            "6.1 reads no temperatures": "mtcap_reg mtmp_reg",
        },
        ("6.1", What.FIELD): {
            RESERVED: """
                device_mem_cap: log_indirect_encap_sw_icm_size indirect_encap_sw_icm_start_address
                dest_format_struct: destination_table_type
                flow_context: uplink_hairpin_en
                flow_table_context: rtc_valid
                mfrl_reg: pci_reset_req_method
                port_selection_cap: ft_field_support_2_port_selection
                match_definer: format_select_dw0 format_select_dw1 format_select_dw2
                    format_select_dw3 format_select_dw4 format_select_dw5 format_select_dw6
                    format_select_dw7 format_select_dw8 format_select_byte0 format_select_byte1
                    format_select_byte2 format_select_byte3 format_select_byte4 format_select_byte5
                    format_select_byte6 format_select_byte7
                flow_table_eswitch_cap: fdb_uplink_hairpin fdb_multi_path_any_table_limit_regc
                    fdb_dynamic_tunnel fdb_multi_path_any_table ft_field_support_2_esw_fdb
                    ft_field_bitmask_support_2_esw_fdb
                flow_table_fields_supported_2: inner_l4_type outer_l4_type tunnel_header_0_1
                flow_table_nic_cap: ft_field_support_2_nic_receive
                flow_table_prop_layout: reset_root_to_default reformat_add_esp_trasport
                    reformat_l2_to_l3_esp_tunnel reformat_add_esp_transport_over_udp
                    reformat_del_esp_trasport reformat_l3_esp_tunnel_to_l2
                    reformat_del_esp_transport_over_udp reparse cross_vhca_object
                    reformat_l2_to_l3_audp_tunnel reformat_l3_audp_tunnel_to_l2
                    ignore_flow_level_rtc_valid
                fte_match_set_lyr_2_4: l4_type
                fte_match_set_misc: inner_esp_spi
                fte_match_set_misc2: ipsec_syndrome
                mcam_access_reg: mpir mfrl mtmp
                mcam_enhanced_features: mtutc_freq_adj_units mtutc_time_adjustment_extended_range
                mtutc_reg: freq_adj_units log_max_freq_adjustment
                nic_vport_context: sd_group
                pcam_enhanced_features: fec_100G_per_lane_in_pplm buffer_ownership
                per_protocol_networking_offload_caps: swp_csum_l4_partial
                pfcc_reg: buf_ownership
                pplm_reg: fec_override_cap_800g_8x fec_override_cap_400g_4x fec_override_cap_200g_2x
                    fec_override_cap_100g_1x fec_override_admin_800g_8x fec_override_admin_400g_4x
                    fec_override_admin_200g_2x fec_override_admin_100g_1x
                roce_cap: roce_cc_general qp_ooo_transmit_default
                shampo_cap: shampo_header_split shampo_header_split_data_merge
                    shampo_log_max_headers_entry_size
                set_l2_table_entry_in: silent_mode_valid silent_mode
                sqc: non_wire
            """,
            "6.1 has twelve words here, dword_0 to dword_11": "mcia_reg: dwords",
        },
        ("6.1", What.OFFSET): {
            "6.1 has three bits; the two above them came later": "ppcnt_reg: prio_tc",
        },
        ("6.1", What.WIDTH): {
            "6.1 has three bits; the two above them came later": "ppcnt_reg: prio_tc",
        },
        ("6.1", What.SIZE): {
            "6.1 has the register without the words that mcam_reg's mcia_32dwords adds": "mcia_reg",
        },
        ("6.1 6.12", What.STRUCTURE): {
            NO_TYPE: "query_l2_table_entry_out",
            "the non-volatile configuration came with Linux 7": "config_item mnvda_reg",
        },
        ("6.12", What.STRUCTURE): {
            "no field of it is read": "shampo_cap",
        },
        ("6.12 7.2", What.STRUCTURE): {
            _NO_TC: "flow_meter_aso_obj flow_meter_parameters sampler_obj",
        },
        ("6.12 7.2", What.FIELD): {
            "the kernel has them in a structure of a union (sws); in memory it is the same": (
                "flow_table_context: sw_owner_icm_root_0 sw_owner_icm_root_1"
            ),
            "mstflint names these bits; the kernel leaves them reserved": """
                mtcap_reg: internal_sensor_count
                mtmp_reg: i
            """,
        },
        ("7.2", What.FIELD): {
            "7.2 has a list of functions here; before, the host's parameters were all of it": (
                "query_esw_functions_out: host_params_context"
            ),
        },
        ("7.2", What.OFFSET): {
            "7.2 has 16 bits, of which the upper ones were reserved before": """
                ets_tcn_config_reg: max_bw_value
                nic_vport_context: allowed_list_size
            """,
        },
        ("7.2", What.WIDTH): {
            "7.2 has 16 bits, of which the upper ones were reserved before": """
                ets_tcn_config_reg: max_bw_value
                nic_vport_context: allowed_list_size
            """,
        },
        ("7.2", What.SIZE): {
            "7.2 adds the modes of 200 Gbit/s for each lane at the end": "pplm_reg",
        },
    }
)

"""Known differences between kernels and our structures (those of Linux 6.12), with reasons.

The layout check accepts the listed differences and no others; an entry that a kernel does not need
is an error there as well. 6.1 is Debian's bookworm, 6.12 trixie; 7.2 was sid's when this was
written.
"""

from __future__ import annotations

from layouts.btf.kernel_differences_eth import KNOWN_ETH
from layouts.btf.known import NO_TYPE, RESERVED, USER_SPACE, Known, known
from layouts.btf.report import What

_BEFORE_UNION = "6.1 has bytes_committed before the union of the forms; in memory it is the same"
_KEYS_OF_TLS = "6.1 names fields that keys of TLS need"

_OTHERS = known(
    {
        ("", What.STRUCTURE): {
            NO_TYPE: """
                access_register_out alloc_memic_out arm_rq_out arm_xrc_srq_out arm_xrq_out
                attach_to_mcg_out config_int_moderation_in config_int_moderation_out create_lag_out
                create_vport_lag_out dealloc_memic_out dealloc_pd_out dealloc_q_counter_out
                dealloc_transport_domain_out dealloc_uar_out dealloc_xrcd_out destroy_cq_out
                destroy_dct_out destroy_eq_out destroy_lag_out destroy_mkey_out destroy_psv_out
                destroy_vport_lag_out destroy_qp_out destroy_rmp_out destroy_srq_out
                destroy_uctx_out destroy_umem_out destroy_xrc_srq_out destroy_xrq_out
                detach_from_mcg_out disable_hca_out drain_dct_out enable_hca_out init_hca_out
                modify_cq_out modify_hca_vport_context_out modify_lag_out modify_memic_out
                modify_rmp_out page_fault_resume_out pcap_reg pmaos_reg qp_2err_out qp_2rst_out
                query_cq_out query_dct_out query_eq_out query_hca_vport_context_out
                query_hca_vport_gid_out query_hca_vport_pkey_out query_mkey_out query_qp_out
                query_lag_in query_lag_out query_rmp_out query_srq_out query_vport_counter_out
                query_xrc_srq_out query_xrq_out resource_dump_command_segment
                resource_dump_error_segment resource_dump_info_segment
                resource_dump_resource_segment set_driver_version_out set_hca_cap_out set_issi_out
                sqd2rts_qp_out sqerr2rts_qp_out traffic_counter wqe_atomic_seg wqe_masked_atomic_seg
            """,
            "rdma-core's own: the driver forwards commands on such objects": """
                create_general_object_out create_general_object_in destroy_general_object_in
                destroy_general_object_out modify_general_object_in modify_general_object_out
                query_general_object_in query_general_object_out sched_elem
            """,
            "headers of InfiniBand packets: the adapter writes and reads them, no driver does": """
                aeth atomic_ack_eth atomic_eth bth cnp deth ieth imm_dt lrh masked_atomic_eth reth
                xrceth
            """,
            "the driver makes these words by shifts (cq.h, core/eq.c)": (
                "cq_doorbell eq_doorbell send_doorbell"
            ),
            "tools read these, mstflint's and iPXE's; no driver does": """
                icmd_query_cap_general mgir_reg nodnic nodnic_mac nodnic_port nodnic_ring
                operation_tlv pddr_module_info pddr_operation_info_page ppaos_reg reg_tlv
                roce_accl_reg sltp_reg
            """,
            USER_SPACE: "qpc_ext mmo_metadata_seg crypto_bsf crypto_login_obj",
            "DPDK has these, and Linux requests no such mini CQEs": (
                "mini_cqe_flow_tag mini_cqe_l3_l4"
            ),
            "UCX has these, and Linux posts no masked atomics": (
                "wqe_masked_cs4_seg wqe_masked_fa_seg wqe_masked_fa4_seg"
            ),
            "InfiniBand's own: the driver forwards management datagrams unread": """
                bad_mkey_notice guid_info inform_info inform_info_rec linear_forw_table link_notice
                local_change_notice mcast_forw_table mcmember_rec node_info node_rec notice path_rec
                pkey_table pma_mad port_info port_notice portinfo_rec rmpp_hdr sa_mad service_rec
                sm_info switch_info
            """,
            "rdma-core's own: requests, completions and message headers of lists of tags": (
                "wqe_tm_seg tm_cqe cqe_app tmh rvh"
            ),
        },
        ("", What.FIELD): {
            "the driver has both in one byte, link_overrun_errors": (
                "pma_portcounters: local_link_integrity_errors excessive_buffer_overrun_errors"
            ),
            "DPDK names these bits": "cqc: mini_cqe_res_format_ext",
            "iPXE reads this word": "init_seg: no_dram_nic_offset",
            USER_SPACE: """
                cmd_hca_cap: sig_crc64_xp10 sig_crc32c sig_block_4048 sigerr_domain_and_sig_type
                    rts2rts_qp_udp_sport rts2rts_lag_tx_port_affinity mini_cqe_resp_l3_l4_tag
                    mini_cqe_resp_flow_tag log_dma_mmo_max_size dma_mmo_qp
                    aes_xts_single_block_le_tweak aes_xts_multi_block_be_tweak
                create_cq_in: cq_umem_offset cq_umem_id
                init2init_qp_in: qpc_ext opt_param_mask_95_32 qpc_data_ext
                rts2rts_qp_in: qpc_ext opt_param_mask_95_32 qpc_data_ext
                device_mem_cap: increment_sizes test_and_set_sizes
                modify_cq_in: cq_umem_offset cq_umem_id
                create_mkey_in: mkey_umem_id mkey_umem_offset bsf_octword_actual_size
                sig_err_cqe: sig_type domain
                err_cqe: hw_err_synd hw_synd_type
                cqc: dbr_umem_id
                qos_cap: nic_qp_scheduling
                qpc: send_dbr_mode dbr_umem_id
                cmd_hca_cap_2: send_dbr_mode_no_dbr_ext log_max_send_dbr_less_qp_sq
                encryption_key_obj: has_keytag
                mkc: crypto_en
            """,
            "UCX names this bit; the kernel leaves it reserved and forwards it": "xrqc: dc",
        },
        ("", What.SIZE): {
            USER_SPACE: "init2init_qp_in rts2rts_qp_in",
        },
        ("6.1", What.STRUCTURE): {
            "Linux requests it since 6.3": "cqe_error_syndrome",
            "6.1 has this structure's fields in odp_cap itself": "odp_scheme_cap",
            "6.1 has this structure's fields in page_fault_resume_in itself": (
                "trans_page_fault_info"
            ),
            "6.1 does not know page faults of the memory scheme": (
                "eqe_page_fault_memory mem_page_fault_info"
            ),
            USER_SPACE: "crypto_cap",
        },
        ("6.1", What.FIELD): {
            RESERVED: """
                ads: plane_index
                cmd_hca_cap: page_request_disable go_back_n terminate_scatter_list_mkey
                    repeated_mkey qpc_extension wqe_based_flow_table_update_cap
                    cq_period_mode_modify qp_error_syndrome pcie_reset_using_hotreset_method
                    pci_sync_for_fw_update_with_driver_unload vnic_env_cnt_steering_fail
                    vport_counter_local_loopback q_counter_aggregation q_counter_other_vport
                    silent_mode cross_vhca_rqt crypto crossing_vhca_mkey data_direct
                    log_max_num_header_modify_argument log_header_modify_argument_granularity_offset
                    log_header_modify_argument_granularity log_header_modify_argument_max_alloc
                cmd_hca_cap_2: migratable query_vuid umr_log_entity_size_5 migration_multi_load
                    migration_tracking_state multiplane_qp_ud migration_in_chunks sf_eq_usage
                    multiplane cross_vhca_object_to_object_supported
                    allowed_object_for_other_vhca_access flow_table_type_2_type
                    format_select_dw_8_6_ext format_select_dw_gtpu_dw_0 format_select_dw_gtpu_dw_1
                    format_select_dw_gtpu_dw_2 format_select_dw_gtpu_first_ext_dw_0
                    generate_wqe_type min_mkey_log_entity_size_fixed_buffer ec_vf_vport_base
                    max_mkey_log_entity_size_fixed_buffer max_mkey_log_entity_size_mtt
                    max_rqt_vhca_id pcc_ifa2 min_mkey_log_entity_size_fixed_buffer_valid
                    return_reg_id flow_table_hash_type max_num_eqs_24b
                create_mkey_in: data_direct
                create_qp_in: qpc_ext wq_umem_offset wq_umem_id
                hca_vport_context: num_port_plane
                mad_ifc_in: plane_index
                mkc: crossing_target_vhca_id
                odp_cap: memory_page_fault_scheme_cap mem_page_fault
                ptys_reg: plane_ind
                qpc: retry_mode
                query_hca_cap_in: ec_vf_function
                query_q_counter_in: other_vport vport_number aggregate
                query_q_counter_out: req_rnr_retries_exceeded
                query_qp_in: qpc_ext
                query_special_contexts_out: terminate_scatter_list_mkey repeated_mkey
                set_hca_cap_in: ec_vf_function
                vnic_diagnostic_statistics: generated_pkt_steering_fail handled_pkt_steering_fail
                wq: dbr_umem_id wq_umem_id wq_umem_offset
            """,
            "6.1 calls this bit relaxed_ordering_read": (
                "cmd_hca_cap: relaxed_ordering_read_pci_enabled"
            ),
            "6.1 has the fields of odp_scheme_cap here": "odp_cap: transport_page_fault_scheme_cap",
            "6.1 has the fields of trans_page_fault_info here": (
                "page_fault_resume_in: page_fault_info"
            ),
            _BEFORE_UNION: """
                eqe_page_fault_wqe: bytes_committed
                eqe_page_fault_rdma: bytes_committed
            """,
            _KEYS_OF_TLS: "encryption_key_obj: state sw_wrapped key_purpose opaque sw_wrapped_dek",
        },
        ("6.1", What.OFFSET): {
            "6.1 uses the name for the bit that is relaxed_ordering_read_pci_enabled later": (
                "cmd_hca_cap: relaxed_ordering_read"
            ),
            "6.1 has the bit at 0xba, which is reserved later": "cmd_hca_cap: shampo",
            "6.1 has five bits; the sixth, above them, came with larger pages": (
                "mkc: log_page_size"
            ),
            _BEFORE_UNION: """
                eqe_page_fault_wqe: wqe_index packet_length token pftype_wq
                eqe_page_fault_rdma: r_key packet_length rdma_op_len rdma_va pftype_token
            """,
        },
        ("6.1", What.WIDTH): {
            "6.1 has five bits; the sixth, above them, came with larger pages": (
                "mkc: log_page_size"
            ),
            _KEYS_OF_TLS: "encryption_key_obj: key",
        },
        ("6.1", What.SIZE): {
            _BEFORE_UNION: "eqe_page_fault_wqe eqe_page_fault_rdma",
            _KEYS_OF_TLS: "encryption_key_obj",
        },
        ("6.1 6.12", What.FIELD): {
            "later kernels name these bits, which both leave reserved": """
                cmd_hca_cap_2: dp_ordering_force
                scheduling_context: max_bw_obj_id
                cmd_hca_cap: dp_ordering_ooo_all_ud dp_ordering_ooo_all_uc dp_ordering_ooo_all_xrc
                    dp_ordering_ooo_all_dc dp_ordering_ooo_all_rc
            """,
        },
        ("6.12", What.FIELD): {
            "later kernels name these bits, which 6.12 leaves reserved": (
                "cmd_hca_cap_2: max_mkey_log_entity_size_fixed_buffer"
            ),
        },
        ("6.12 7.2", What.FIELD): {
            USER_SPACE: """
                crypto_cap: wrapped_crypto_operational wrapped_crypto_going_to_commissioning
                    wrapped_import_method log_max_num_import_keks log_max_num_creds failed_selftests
                    num_nv_import_keks num_nv_credentials
            """,
        },
        ("7.2", What.FIELD): {
            "7.2 calls this bit silent_mode_set": "cmd_hca_cap: silent_mode",
        },
    }
)

KNOWN: tuple[Known, ...] = (*_OTHERS, *KNOWN_ETH)

"""Capability groups of an Ethernet port: offloads, NIC flow tables, RoCE, quality of service.

The groups fill the head of a capability page, like those in :mod:`layouts.function.caps`.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, array, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class per_protocol_networking_offload_caps(Prm):
    csum_cap = bits(1); vlan_cap = bits(1); lro_cap = bits(1); lro_psh_flag = bits(1)
    lro_time_stamp = bits(1); _ = rsvd(2); wqe_vlan_insert = bits(1)
    self_lb_en_modifiable = bits(1); _ = rsvd(2); max_lso_cap = bits(5)
    multi_pkt_send_wqe = bits(2); wqe_inline_mode = bits(2); rss_ind_tbl_cap = bits(4)
    reg_umr_sq = bits(1); scatter_fcs = bits(1); enhanced_multi_pkt_send_wqe = bits(1)
    tunnel_lso_const_out_ip_id = bits(1); tunnel_lro_gre = bits(1); tunnel_lro_vxlan = bits(1)
    tunnel_stateless_gre = bits(1); tunnel_stateless_vxlan = bits(1)
    swp = bits(1); swp_csum = bits(1); swp_lso = bits(1); cqe_checksum_full = bits(1)
    tunnel_stateless_geneve_tx = bits(1); tunnel_stateless_mpls_over_udp = bits(1)
    tunnel_stateless_mpls_over_gre = bits(1); tunnel_stateless_vxlan_gpe = bits(1)
    tunnel_stateless_ipv4_over_vxlan = bits(1); tunnel_stateless_ip_over_ip = bits(1)
    insert_trailer = bits(1); _ = rsvd(1); tunnel_stateless_ip_over_ip_rx = bits(1)
    tunnel_stateless_ip_over_ip_tx = bits(1); _ = rsvd(2); max_vxlan_udp_ports = bits(8)
    swp_csum_l4_partial = bits(1); _ = rsvd(5); max_geneve_opt_len = bits(1)
    tunnel_stateless_geneve_rx = bits(1); _ = rsvd(16); lro_min_mss_size = bits(16); _ = rsvd(288)
    lro_timer_supported_periods = array(4, bits(32)); _ = rsvd(1536)

class flow_table_fields_supported(Prm):
    outer_dmac = bits(1); outer_smac = bits(1); outer_ether_type = bits(1)
    outer_ip_version = bits(1); outer_first_prio = bits(1); outer_first_cfi = bits(1)
    outer_first_vid = bits(1); outer_ipv4_ttl = bits(1); outer_second_prio = bits(1)
    outer_second_cfi = bits(1); outer_second_vid = bits(1); _ = rsvd(1); outer_sip = bits(1)
    outer_dip = bits(1); outer_frag = bits(1); outer_ip_protocol = bits(1); outer_ip_ecn = bits(1)
    outer_ip_dscp = bits(1); outer_udp_sport = bits(1); outer_udp_dport = bits(1)
    outer_tcp_sport = bits(1); outer_tcp_dport = bits(1); outer_tcp_flags = bits(1)
    outer_gre_protocol = bits(1); outer_gre_key = bits(1); outer_vxlan_vni = bits(1)
    outer_geneve_vni = bits(1); outer_geneve_oam = bits(1); outer_geneve_protocol_type = bits(1)
    outer_geneve_opt_len = bits(1); source_vhca_port = bits(1); source_eswitch_port = bits(1)
    inner_dmac = bits(1); inner_smac = bits(1); inner_ether_type = bits(1)
    inner_ip_version = bits(1); inner_first_prio = bits(1); inner_first_cfi = bits(1)
    inner_first_vid = bits(1); _ = rsvd(1); inner_second_prio = bits(1); inner_second_cfi = bits(1)
    inner_second_vid = bits(1); _ = rsvd(1); inner_sip = bits(1); inner_dip = bits(1)
    inner_frag = bits(1); inner_ip_protocol = bits(1); inner_ip_ecn = bits(1)
    inner_ip_dscp = bits(1); inner_udp_sport = bits(1); inner_udp_dport = bits(1)
    inner_tcp_sport = bits(1); inner_tcp_dport = bits(1); inner_tcp_flags = bits(1); _ = rsvd(9)
    geneve_tlv_option_0_data = bits(1); geneve_tlv_option_0_exist = bits(1); _ = rsvd(3)
    outer_first_mpls_over_udp = bits(4); outer_first_mpls_over_gre = bits(4)
    inner_first_mpls = bits(4); outer_first_mpls = bits(4); _ = rsvd(2); outer_esp_spi = bits(1)
    _ = rsvd(2); bth_dst_qp = bits(1); _ = rsvd(29); metadata_reg_c_7 = bits(1)
    metadata_reg_c_6 = bits(1); metadata_reg_c_5 = bits(1); metadata_reg_c_4 = bits(1)
    metadata_reg_c_3 = bits(1); metadata_reg_c_2 = bits(1); metadata_reg_c_1 = bits(1)
    metadata_reg_c_0 = bits(1)

class flow_table_fields_supported_2(Prm):
    _ = rsvd(2); inner_l4_type = bits(1); outer_l4_type = bits(1); _ = rsvd(10)
    bth_opcode = bits(1); _ = rsvd(1); tunnel_header_0_1 = bits(1); _ = rsvd(111)

class flow_table_prop_layout(Prm):
    ft_support = bits(1); _ = rsvd(1); flow_counter = bits(1); flow_modify_en = bits(1)
    modify_root = bits(1); identified_miss_table_mode = bits(1); flow_table_modify = bits(1)
    reformat = bits(1); decap = bits(1); reset_root_to_default = bits(1); pop_vlan = bits(1)
    push_vlan = bits(1); _ = rsvd(1); pop_vlan_2 = bits(1); push_vlan_2 = bits(1)
    reformat_and_vlan_action = bits(1); _ = rsvd(1); sw_owner = bits(1)
    reformat_l3_tunnel_to_l2 = bits(1); reformat_l2_to_l3_tunnel = bits(1)
    reformat_and_modify_action = bits(1); ignore_flow_level = bits(1); _ = rsvd(1)
    table_miss_action_domain = bits(1); termination_table = bits(1)
    reformat_and_fwd_to_table = bits(1); _ = rsvd(2); ipsec_encrypt = bits(1)
    ipsec_decrypt = bits(1); sw_owner_v2 = bits(1); _ = rsvd(1)
    termination_table_raw_traffic = bits(1); _ = rsvd(1); log_max_ft_size = bits(6)
    log_max_modify_header_context = bits(8); max_modify_header_actions = bits(8)
    max_ft_level = bits(8)
    reformat_add_esp_trasport = bits(1); reformat_l2_to_l3_esp_tunnel = bits(1)
    reformat_add_esp_transport_over_udp = bits(1); reformat_del_esp_trasport = bits(1)
    reformat_l3_esp_tunnel_to_l2 = bits(1); reformat_del_esp_transport_over_udp = bits(1)
    execute_aso = bits(1); _ = rsvd(27); reformat_insert = bits(1); reformat_remove = bits(1)
    macsec_encrypt = bits(1); macsec_decrypt = bits(1); _ = rsvd(2); reformat_add_macsec = bits(1)
    reformat_remove_macsec = bits(1); reparse = bits(1); _ = rsvd(1); cross_vhca_object = bits(1)
    reformat_l2_to_l3_audp_tunnel = bits(1); reformat_l3_audp_tunnel_to_l2 = bits(1)
    ignore_flow_level_rtc_valid = bits(1); _ = rsvd(8); log_max_ft_num = bits(8)
    _ = rsvd(16); log_max_flow_counter = bits(8); log_max_destination = bits(8)
    _ = rsvd(24); log_max_flow = bits(8); _ = rsvd(64)
    ft_field_support = nested(flow_table_fields_supported)
    ft_field_bitmask_support = nested(flow_table_fields_supported)

class flow_table_nic_cap(Prm):
    nic_rx_multi_path_tirs = bits(1); nic_rx_multi_path_tirs_fts = bits(1)
    allow_sniffer_and_nic_rx_shared_tir = bits(1); _ = rsvd(4)
    sw_owner_reformat_supported = bits(1); _ = rsvd(24)
    encap_general_header = bits(1); _ = rsvd(10); log_max_packet_reformat_context = bits(5)
    _ = rsvd(6); max_encap_header_size = bits(10); _ = rsvd(448)
    flow_table_properties_nic_receive = nested(flow_table_prop_layout)
    flow_table_properties_nic_receive_rdma = nested(flow_table_prop_layout)
    flow_table_properties_nic_receive_sniffer = nested(flow_table_prop_layout)
    flow_table_properties_nic_transmit = nested(flow_table_prop_layout)
    flow_table_properties_nic_transmit_rdma = nested(flow_table_prop_layout)
    flow_table_properties_nic_transmit_sniffer = nested(flow_table_prop_layout); _ = rsvd(1536)
    ft_field_support_2_nic_receive = nested(flow_table_fields_supported_2); _ = rsvd(128)
    ft_field_support_2_nic_receive_rdma = nested(flow_table_fields_supported_2); _ = rsvd(640)
    ft_field_support_2_nic_transmit_rdma = nested(flow_table_fields_supported_2); _ = rsvd(1920)
    sw_steering_nic_rx_action_drop_icm_address = bits(64)
    sw_steering_nic_tx_action_drop_icm_address = bits(64)
    sw_steering_nic_tx_action_allow_icm_address = bits(64); _ = rsvd(24384)

class roce_cap(Prm):
    roce_apm = bits(1); _ = rsvd(3); sw_r_roce_src_udp_port = bits(1)
    fl_rc_qp_when_roce_disabled = bits(1); fl_rc_qp_when_roce_enabled = bits(1)
    roce_cc_general = bits(1); qp_ooo_transmit_default = bits(1); _ = rsvd(21)
    qp_ts_format = bits(2); _ = rsvd(108); l3_type = bits(4); _ = rsvd(8); roce_version = bits(8)
    _ = rsvd(16); r_roce_dest_udp_port = bits(16)
    r_roce_max_src_udp_port = bits(16); r_roce_min_src_udp_port = bits(16)
    _ = rsvd(16); roce_address_table_size = bits(16); _ = rsvd(1792)

class qos_cap(Prm):
    packet_pacing = bits(1); esw_scheduling = bits(1); esw_bw_share = bits(1)
    esw_rate_limit = bits(1); _ = rsvd(1); packet_pacing_burst_bound = bits(1)
    packet_pacing_typical_size = bits(1); _ = rsvd(1); nic_sq_scheduling = bits(1)
    nic_bw_share = bits(1); nic_rate_limit = bits(1); packet_pacing_uid = bits(1)
    log_esw_max_sched_depth = bits(4); _ = rsvd(17); nic_qp_scheduling = bits(1); _ = rsvd(9)
    log_max_qos_nic_queue_group = bits(5); _ = rsvd(16); packet_pacing_max_rate = bits(32)
    packet_pacing_min_rate = bits(32); _ = rsvd(16); packet_pacing_rate_table_size = bits(16)
    esw_element_type = bits(16); esw_tsar_type = bits(16)
    _ = rsvd(16); max_qos_para_vport = bits(16); max_tsar_bw_share = bits(32)
    nic_element_type = bits(16); nic_tsar_type = bits(16)
    _ = rsvd(3); log_meter_aso_granularity = bits(5); _ = rsvd(3); log_meter_aso_max_alloc = bits(5)
    _ = rsvd(3); log_max_num_meter_aso = bits(5); _ = rsvd(1736)

class debug_cap(Prm):
    core_dump_general = bits(1); core_dump_qp = bits(1); _ = rsvd(7); resource_dump = bits(1)
    _ = rsvd(24); stall_detect = bits(1); _ = rsvd(2013)

class shampo_cap(Prm):
    _ = rsvd(3); shampo_log_max_reservation_size = bits(5); _ = rsvd(3)
    shampo_log_min_reservation_size = bits(5); shampo_min_mss_size = bits(16)
    shampo_header_split = bits(1); shampo_header_split_data_merge = bits(1); _ = rsvd(1)
    shampo_log_max_headers_entry_size = bits(5); _ = rsvd(2008)

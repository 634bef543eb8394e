"""Match fields of steering entries of format 1 and 2: 16 bytes for each lookup type.

Names and widths: core/steering/mlx5_ifc_dr_ste_v1.h and mlx5_ifc_dr.h of Linux 6.12; ste_ib_l4 is
in rdma-core's mlx5_ifc.h alone.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class ste_eth_l2_src_v1(Prm):
    _ = rsvd(1); sx_sniffer = bits(1); functional_loopback = bits(1); ip_fragmented = bits(1)
    qp_type = bits(2); encapsulation_type = bits(2); port = bits(2); l3_type = bits(2)
    l4_type = bits(2); first_vlan_qualifier = bits(2); first_priority = bits(3); first_cfi = bits(1)
    first_vlan_id = bits(12); smac_47_16 = bits(32); smac_15_0 = bits(16); l3_ethertype = bits(16)
    _ = rsvd(6); tcp_syn = bits(1); _ = rsvd(3); force_loopback = bits(1); l2_ok = bits(1)
    l3_ok = bits(1); l4_ok = bits(1); second_vlan_qualifier = bits(2); second_priority = bits(3)
    second_cfi = bits(1); second_vlan_id = bits(12)

class ste_eth_l2_dst_v1(Prm):
    _ = rsvd(1); sx_sniffer = bits(1); functional_lb = bits(1); ip_fragmented = bits(1)
    qp_type = bits(2); encapsulation_type = bits(2); port = bits(2); l3_type = bits(2)
    l4_type = bits(2); first_vlan_qualifier = bits(2); first_priority = bits(3); first_cfi = bits(1)
    first_vlan_id = bits(12); dmac_47_16 = bits(32); dmac_15_0 = bits(16); l3_ethertype = bits(16)
    _ = rsvd(6); tcp_syn = bits(1); _ = rsvd(3); force_lb = bits(1); l2_ok = bits(1)
    l3_ok = bits(1); l4_ok = bits(1); second_vlan_qualifier = bits(2); second_priority = bits(3)
    second_cfi = bits(1); second_vlan_id = bits(12)

class ste_eth_l2_src_dst_v1(Prm):
    dmac_47_16 = bits(32); smac_47_16 = bits(32)
    dmac_15_0 = bits(16); _ = rsvd(2); functional_lb = bits(1); _ = rsvd(5); port = bits(2)
    l3_type = bits(2); _ = rsvd(2); first_vlan_qualifier = bits(2)
    first_priority = bits(3); first_cfi = bits(1); first_vlan_id = bits(12); smac_15_0 = bits(16)

class ste_eth_l3_ipv4_5_tuple_v1(Prm):
    source_address = bits(32); destination_address = bits(32)
    source_port = bits(16); destination_port = bits(16)
    _ = rsvd(4); l4_ok = bits(1); l3_ok = bits(1); fragmented = bits(1); tcp_ns = bits(1)
    tcp_cwr = bits(1); tcp_ece = bits(1); tcp_urg = bits(1); tcp_ack = bits(1); tcp_psh = bits(1)
    tcp_rst = bits(1); tcp_syn = bits(1); tcp_fin = bits(1); dscp = bits(6); ecn = bits(2)
    protocol = bits(8)

class ste_eth_l2_tnl_v1(Prm):
    l2_tunneling_network_id = bits(32); dmac_47_16 = bits(32)
    dmac_15_0 = bits(16); l3_ethertype = bits(16)
    _ = rsvd(3); ip_fragmented = bits(1); _ = rsvd(2); encp_type = bits(2); _ = rsvd(2)
    l3_type = bits(2); l4_type = bits(2); first_vlan_qualifier = bits(2); first_priority = bits(3)
    first_cfi = bits(1); first_vlan_id = bits(12)

class ste_eth_l3_ipv4_misc_v1(Prm):
    identification = bits(16); flags = bits(3); fragment_offset = bits(13)
    total_length = bits(16); checksum = bits(16)
    version = bits(4); ihl = bits(4); time_to_live = bits(8); _ = rsvd(16)
    _ = rsvd(28); voq_internal_prio = bits(4)

class ste_eth_l4_v1(Prm):
    ipv6_version = bits(4); _ = rsvd(4); dscp = bits(6); ecn = bits(2); ipv6_hop_limit = bits(8)
    protocol = bits(8); src_port = bits(16); dst_port = bits(16)
    first_fragment = bits(1); _ = rsvd(11); flow_label = bits(20)
    tcp_data_offset = bits(4); l4_ok = bits(1); l3_ok = bits(1); fragmented = bits(1)
    tcp_ns = bits(1); tcp_cwr = bits(1); tcp_ece = bits(1); tcp_urg = bits(1); tcp_ack = bits(1)
    tcp_psh = bits(1); tcp_rst = bits(1); tcp_syn = bits(1); tcp_fin = bits(1)
    ipv6_paylen = bits(16)

class ste_eth_l4_misc_v1(Prm):
    window_size = bits(16); urgent_pointer = bits(16); ack_num = bits(32); seq_num = bits(32)
    length = bits(16); checksum = bits(16)

class ste_icmp_v1(Prm):
    icmp_payload_data = bits(32); icmp_header_data = bits(32)
    icmp_type = bits(8); icmp_code = bits(8); _ = rsvd(16); _ = rsvd(32)

class ste_eth_l3_ipv6_dst(Prm):
    dst_ip_127_96 = bits(32); dst_ip_95_64 = bits(32); dst_ip_63_32 = bits(32)
    dst_ip_31_0 = bits(32)

class ste_eth_l3_ipv6_src(Prm):
    src_ip_127_96 = bits(32); src_ip_95_64 = bits(32); src_ip_63_32 = bits(32)
    src_ip_31_0 = bits(32)

class ste_gre_v1(Prm):
    gre_c_present = bits(1); _ = rsvd(1); gre_k_present = bits(1); gre_s_present = bits(1)
    strict_src_route = bits(1); recur = bits(3); flags = bits(5); version = bits(3)
    gre_protocol = bits(16); _ = rsvd(32); gre_key_h = bits(24); gre_key_l = bits(8); _ = rsvd(32)

class ste_src_gvmi_qp_v1(Prm):
    loopback_synd = bits(8); _ = rsvd(7); functional_lb = bits(1); source_gvmi = bits(16)
    force_lb = bits(1); _ = rsvd(1); source_is_requestor = bits(1); _ = rsvd(5)
    source_qp = bits(24); _ = rsvd(32); _ = rsvd(32)

class ste_ib_l4(Prm):
    opcode = bits(8); qp = bits(24)
    se = bits(1); migreg = bits(1); ackreq = bits(1); fecn = bits(1); becn = bits(1); bth = bits(1)
    deth = bits(1); dcceth = bits(1); _ = rsvd(2); pad_count = bits(2); tver = bits(4)
    pkey = bits(16); _ = rsvd(8); deth_source_qp = bits(24); _ = rsvd(32)

class ste_register_0(Prm):
    register_0_h = bits(32); register_0_l = bits(32); register_1_h = bits(32)
    register_1_l = bits(32)

class ste_register_1(Prm):
    register_2_h = bits(32); register_2_l = bits(32); register_3_h = bits(32)
    register_3_l = bits(32)

class ste_general_purpose(Prm): general_purpose_lookup_field = bits(32); _ = rsvd(96)
class ste_tunnel_header(Prm): tunnel_header_0 = bits(32); tunnel_header_1 = bits(32); _ = rsvd(64)

class ste_flex_parser_0(Prm):
    flex_parser_3 = bits(32); flex_parser_2 = bits(32); flex_parser_1 = bits(32)
    flex_parser_0 = bits(32)

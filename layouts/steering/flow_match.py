"""Match fields of flow groups and flow table entries: a packet's headers (fte_match_param).

A group holds a mask of this form, an entry the value under it.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, nested, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class fte_match_set_lyr_2_4(Prm):
    smac_47_16 = bits(32); smac_15_0 = bits(16); ethertype = bits(16); dmac_47_16 = bits(32)
    dmac_15_0 = bits(16); first_prio = bits(3); first_cfi = bits(1); first_vid = bits(12)
    ip_protocol = bits(8); ip_dscp = bits(6); ip_ecn = bits(2); cvlan_tag = bits(1)
    svlan_tag = bits(1); frag = bits(1); ip_version = bits(4); tcp_flags = bits(9)
    tcp_sport = bits(16); tcp_dport = bits(16)
    l4_type = bits(2); _ = rsvd(14); ipv4_ihl = bits(4); _ = rsvd(4); ttl_hoplimit = bits(8)
    udp_sport = bits(16); udp_dport = bits(16); src_ipv4_src_ipv6 = octets(16)
    dst_ipv4_dst_ipv6 = octets(16)

class fte_match_set_misc(Prm):
    gre_c_present = bits(1); _ = rsvd(1); gre_k_present = bits(1); gre_s_present = bits(1)
    source_vhca_port = bits(4); source_sqn = bits(24)
    source_eswitch_owner_vhca_id = bits(16); source_port = bits(16)
    outer_second_prio = bits(3); outer_second_cfi = bits(1); outer_second_vid = bits(12)
    inner_second_prio = bits(3); inner_second_cfi = bits(1); inner_second_vid = bits(12)
    outer_second_cvlan_tag = bits(1); inner_second_cvlan_tag = bits(1)
    outer_second_svlan_tag = bits(1); inner_second_svlan_tag = bits(1); _ = rsvd(12)
    gre_protocol = bits(16); gre_key = octets(4); vxlan_vni = bits(24); bth_opcode = bits(8)
    geneve_vni = bits(24); _ = rsvd(6); geneve_tlv_option_0_exist = bits(1); geneve_oam = bits(1)
    _ = rsvd(12); outer_ipv6_flow_label = bits(20); _ = rsvd(12); inner_ipv6_flow_label = bits(20)
    _ = rsvd(10); geneve_opt_len = bits(6); geneve_protocol_type = bits(16)
    _ = rsvd(8); bth_dst_qp = bits(24); inner_esp_spi = bits(32); outer_esp_spi = bits(32)
    _ = rsvd(96)

class fte_match_mpls(Prm):
    mpls_label = bits(20); mpls_exp = bits(3); mpls_s_bos = bits(1); mpls_ttl = bits(8)

class fte_match_set_misc2(Prm):
    outer_first_mpls = nested(fte_match_mpls); inner_first_mpls = nested(fte_match_mpls)
    outer_first_mpls_over_gre = nested(fte_match_mpls)
    outer_first_mpls_over_udp = nested(fte_match_mpls); metadata_reg_c_7 = bits(32)
    metadata_reg_c_6 = bits(32); metadata_reg_c_5 = bits(32); metadata_reg_c_4 = bits(32)
    metadata_reg_c_3 = bits(32); metadata_reg_c_2 = bits(32); metadata_reg_c_1 = bits(32)
    metadata_reg_c_0 = bits(32); metadata_reg_a = bits(32)
    _ = rsvd(8); macsec_syndrome = bits(8); ipsec_syndrome = bits(8); _ = rsvd(72)

class fte_match_set_misc3(Prm):
    inner_tcp_seq_num = bits(32); outer_tcp_seq_num = bits(32); inner_tcp_ack_num = bits(32)
    outer_tcp_ack_num = bits(32); _ = rsvd(8); outer_vxlan_gpe_vni = bits(24)
    outer_vxlan_gpe_next_protocol = bits(8); outer_vxlan_gpe_flags = bits(8); _ = rsvd(16)
    icmp_header_data = bits(32); icmpv6_header_data = bits(32)
    icmp_type = bits(8); icmp_code = bits(8); icmpv6_type = bits(8); icmpv6_code = bits(8)
    geneve_tlv_option_0_data = bits(32); gtpu_teid = bits(32)
    gtpu_msg_type = bits(8); gtpu_msg_flags = bits(8); _ = rsvd(16); gtpu_dw_2 = bits(32)
    gtpu_first_ext_dw_0 = bits(32); gtpu_dw_0 = bits(32); _ = rsvd(32)

class fte_match_set_misc4(Prm):
    prog_sample_field_value_0 = bits(32); prog_sample_field_id_0 = bits(32)
    prog_sample_field_value_1 = bits(32); prog_sample_field_id_1 = bits(32)
    prog_sample_field_value_2 = bits(32); prog_sample_field_id_2 = bits(32)
    prog_sample_field_value_3 = bits(32); prog_sample_field_id_3 = bits(32); _ = rsvd(256)

class fte_match_set_misc5(Prm):
    macsec_tag_0 = bits(32); macsec_tag_1 = bits(32); macsec_tag_2 = bits(32)
    macsec_tag_3 = bits(32); tunnel_header_0 = bits(32); tunnel_header_1 = bits(32)
    tunnel_header_2 = bits(32); tunnel_header_3 = bits(32); _ = rsvd(256)

class fte_match_param(Prm):
    outer_headers = nested(fte_match_set_lyr_2_4); misc_parameters = nested(fte_match_set_misc)
    inner_headers = nested(fte_match_set_lyr_2_4); misc_parameters_2 = nested(fte_match_set_misc2)
    misc_parameters_3 = nested(fte_match_set_misc3); misc_parameters_4 = nested(fte_match_set_misc4)
    misc_parameters_5 = nested(fte_match_set_misc5); _ = rsvd(512)

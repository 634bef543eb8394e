"""Match definers: general objects that name the packet fields of a flow group.

``match_mask`` has the fields of the format that ``format_id`` names; each format suits one kind of
packets. A group that splits packets by a hash computes it over these fields.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class match_definer(Prm):
    modify_field_select = bits(64); _ = rsvd(80); format_id = bits(16); _ = rsvd(96)
    format_select_dw3 = bits(8); format_select_dw2 = bits(8); format_select_dw1 = bits(8)
    format_select_dw0 = bits(8)
    format_select_dw7 = bits(8); format_select_dw6 = bits(8); format_select_dw5 = bits(8)
    format_select_dw4 = bits(8); _ = rsvd(24); format_select_dw8 = bits(8); _ = rsvd(32)
    format_select_byte3 = bits(8); format_select_byte2 = bits(8); format_select_byte1 = bits(8)
    format_select_byte0 = bits(8)
    format_select_byte7 = bits(8); format_select_byte6 = bits(8); format_select_byte5 = bits(8)
    format_select_byte4 = bits(8); _ = rsvd(64); match_mask = octets(64)

class match_definer_format_0(Prm):
    _ = rsvd(256); metadata_reg_c_0 = bits(32); metadata_reg_c_1 = bits(32)
    outer_dmac_47_16 = bits(32); outer_dmac_15_0 = bits(16); outer_ethertype = bits(16)
    _ = rsvd(1); sx_sniffer = bits(1); functional_lb = bits(1); outer_ip_frag = bits(1)
    outer_qp_type = bits(2); outer_encap_type = bits(2); port_number = bits(2)
    outer_l3_type = bits(2); outer_l4_type = bits(2); outer_first_vlan_type = bits(2)
    outer_first_vlan_prio = bits(3); outer_first_vlan_cfi = bits(1); outer_first_vlan_vid = bits(12)
    outer_l4_type_ext = bits(4); _ = rsvd(2); outer_ipsec_layer = bits(2); outer_l2_type = bits(2)
    force_lb = bits(1); outer_l2_ok = bits(1); outer_l3_ok = bits(1); outer_l4_ok = bits(1)
    outer_second_vlan_type = bits(2); outer_second_vlan_prio = bits(3)
    outer_second_vlan_cfi = bits(1); outer_second_vlan_vid = bits(12); outer_smac_47_16 = bits(32)
    outer_smac_15_0 = bits(16); inner_ipv4_checksum_ok = bits(1); inner_l4_checksum_ok = bits(1)
    outer_ipv4_checksum_ok = bits(1); outer_l4_checksum_ok = bits(1); inner_l3_ok = bits(1)
    inner_l4_ok = bits(1); outer_l3_ok_duplicate = bits(1); outer_l4_ok_duplicate = bits(1)
    outer_tcp_cwr = bits(1); outer_tcp_ece = bits(1); outer_tcp_urg = bits(1)
    outer_tcp_ack = bits(1); outer_tcp_psh = bits(1); outer_tcp_rst = bits(1)
    outer_tcp_syn = bits(1); outer_tcp_fin = bits(1)

class match_definer_format_22(Prm):
    _ = rsvd(256); outer_ip_src_addr = bits(32); outer_ip_dest_addr = bits(32)
    outer_l4_sport = bits(16); outer_l4_dport = bits(16)
    _ = rsvd(1); sx_sniffer = bits(1); functional_lb = bits(1); outer_ip_frag = bits(1)
    outer_qp_type = bits(2); outer_encap_type = bits(2); port_number = bits(2)
    outer_l3_type = bits(2); outer_l4_type = bits(2); outer_first_vlan_type = bits(2)
    outer_first_vlan_prio = bits(3); outer_first_vlan_cfi = bits(1); outer_first_vlan_vid = bits(12)
    metadata_reg_c_0 = bits(32); outer_dmac_47_16 = bits(32); outer_smac_47_16 = bits(32)
    outer_smac_15_0 = bits(16); outer_dmac_15_0 = bits(16)

class match_definer_format_23(Prm):
    _ = rsvd(256); inner_ip_src_addr = bits(32); inner_ip_dest_addr = bits(32)
    inner_l4_sport = bits(16); inner_l4_dport = bits(16)
    _ = rsvd(1); sx_sniffer = bits(1); functional_lb = bits(1); inner_ip_frag = bits(1)
    inner_qp_type = bits(2); inner_encap_type = bits(2); port_number = bits(2)
    inner_l3_type = bits(2); inner_l4_type = bits(2); inner_first_vlan_type = bits(2)
    inner_first_vlan_prio = bits(3); inner_first_vlan_cfi = bits(1); inner_first_vlan_vid = bits(12)
    tunnel_header_0 = bits(32); inner_dmac_47_16 = bits(32); inner_smac_47_16 = bits(32)
    inner_smac_15_0 = bits(16); inner_dmac_15_0 = bits(16)

class match_definer_format_29(Prm):
    _ = rsvd(192); outer_ip_dest_addr = octets(16); outer_ip_src_addr = octets(16)
    outer_l4_sport = bits(16); outer_l4_dport = bits(16); _ = rsvd(32)

class match_definer_format_30(Prm):
    _ = rsvd(160); outer_ip_dest_addr = octets(16); outer_ip_src_addr = octets(16)
    outer_dmac_47_16 = bits(32); outer_smac_47_16 = bits(32)
    outer_smac_15_0 = bits(16); outer_dmac_15_0 = bits(16)

class match_definer_format_31(Prm):
    _ = rsvd(192); inner_ip_dest_addr = octets(16); inner_ip_src_addr = octets(16)
    inner_l4_sport = bits(16); inner_l4_dport = bits(16); _ = rsvd(32)

class match_definer_format_32(Prm):
    _ = rsvd(160); inner_ip_dest_addr = octets(16); inner_ip_src_addr = octets(16)
    inner_dmac_47_16 = bits(32); inner_smac_47_16 = bits(32)
    inner_smac_15_0 = bits(16); inner_dmac_15_0 = bits(16)

# Written by scripts/gen-view-types from match_definer.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Octets
from layouts.prm import Prm

class MatchDefiner(View):
    modify_field_select: int
    format_id: int
    format_select_dw3: int
    format_select_dw2: int
    format_select_dw1: int
    format_select_dw0: int
    format_select_dw7: int
    format_select_dw6: int
    format_select_dw5: int
    format_select_dw4: int
    format_select_dw8: int
    format_select_byte3: int
    format_select_byte2: int
    format_select_byte1: int
    format_select_byte0: int
    format_select_byte7: int
    format_select_byte6: int
    format_select_byte5: int
    format_select_byte4: int
    match_mask: Octets

match_definer: Prm[MatchDefiner]

class MatchDefinerFormat0(View):
    metadata_reg_c_0: int
    metadata_reg_c_1: int
    outer_dmac_47_16: int
    outer_dmac_15_0: int
    outer_ethertype: int
    sx_sniffer: int
    functional_lb: int
    outer_ip_frag: int
    outer_qp_type: int
    outer_encap_type: int
    port_number: int
    outer_l3_type: int
    outer_l4_type: int
    outer_first_vlan_type: int
    outer_first_vlan_prio: int
    outer_first_vlan_cfi: int
    outer_first_vlan_vid: int
    outer_l4_type_ext: int
    outer_ipsec_layer: int
    outer_l2_type: int
    force_lb: int
    outer_l2_ok: int
    outer_l3_ok: int
    outer_l4_ok: int
    outer_second_vlan_type: int
    outer_second_vlan_prio: int
    outer_second_vlan_cfi: int
    outer_second_vlan_vid: int
    outer_smac_47_16: int
    outer_smac_15_0: int
    inner_ipv4_checksum_ok: int
    inner_l4_checksum_ok: int
    outer_ipv4_checksum_ok: int
    outer_l4_checksum_ok: int
    inner_l3_ok: int
    inner_l4_ok: int
    outer_l3_ok_duplicate: int
    outer_l4_ok_duplicate: int
    outer_tcp_cwr: int
    outer_tcp_ece: int
    outer_tcp_urg: int
    outer_tcp_ack: int
    outer_tcp_psh: int
    outer_tcp_rst: int
    outer_tcp_syn: int
    outer_tcp_fin: int

match_definer_format_0: Prm[MatchDefinerFormat0]

class MatchDefinerFormat22(View):
    outer_ip_src_addr: int
    outer_ip_dest_addr: int
    outer_l4_sport: int
    outer_l4_dport: int
    sx_sniffer: int
    functional_lb: int
    outer_ip_frag: int
    outer_qp_type: int
    outer_encap_type: int
    port_number: int
    outer_l3_type: int
    outer_l4_type: int
    outer_first_vlan_type: int
    outer_first_vlan_prio: int
    outer_first_vlan_cfi: int
    outer_first_vlan_vid: int
    metadata_reg_c_0: int
    outer_dmac_47_16: int
    outer_smac_47_16: int
    outer_smac_15_0: int
    outer_dmac_15_0: int

match_definer_format_22: Prm[MatchDefinerFormat22]

class MatchDefinerFormat23(View):
    inner_ip_src_addr: int
    inner_ip_dest_addr: int
    inner_l4_sport: int
    inner_l4_dport: int
    sx_sniffer: int
    functional_lb: int
    inner_ip_frag: int
    inner_qp_type: int
    inner_encap_type: int
    port_number: int
    inner_l3_type: int
    inner_l4_type: int
    inner_first_vlan_type: int
    inner_first_vlan_prio: int
    inner_first_vlan_cfi: int
    inner_first_vlan_vid: int
    tunnel_header_0: int
    inner_dmac_47_16: int
    inner_smac_47_16: int
    inner_smac_15_0: int
    inner_dmac_15_0: int

match_definer_format_23: Prm[MatchDefinerFormat23]

class MatchDefinerFormat29(View):
    outer_ip_dest_addr: Octets
    outer_ip_src_addr: Octets
    outer_l4_sport: int
    outer_l4_dport: int

match_definer_format_29: Prm[MatchDefinerFormat29]

class MatchDefinerFormat30(View):
    outer_ip_dest_addr: Octets
    outer_ip_src_addr: Octets
    outer_dmac_47_16: int
    outer_smac_47_16: int
    outer_smac_15_0: int
    outer_dmac_15_0: int

match_definer_format_30: Prm[MatchDefinerFormat30]

class MatchDefinerFormat31(View):
    inner_ip_dest_addr: Octets
    inner_ip_src_addr: Octets
    inner_l4_sport: int
    inner_l4_dport: int

match_definer_format_31: Prm[MatchDefinerFormat31]

class MatchDefinerFormat32(View):
    inner_ip_dest_addr: Octets
    inner_ip_src_addr: Octets
    inner_dmac_47_16: int
    inner_smac_47_16: int
    inner_smac_15_0: int
    inner_dmac_15_0: int

match_definer_format_32: Prm[MatchDefinerFormat32]

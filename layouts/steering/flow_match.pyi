# Written by scripts/gen-view-types from flow_match.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested, Octets
from layouts.prm import Prm

class FteMatchSetLyr24(View):
    smac_47_16: int
    smac_15_0: int
    ethertype: int
    dmac_47_16: int
    dmac_15_0: int
    first_prio: int
    first_cfi: int
    first_vid: int
    ip_protocol: int
    ip_dscp: int
    ip_ecn: int
    cvlan_tag: int
    svlan_tag: int
    frag: int
    ip_version: int
    tcp_flags: int
    tcp_sport: int
    tcp_dport: int
    l4_type: int
    ipv4_ihl: int
    ttl_hoplimit: int
    udp_sport: int
    udp_dport: int
    src_ipv4_src_ipv6: Octets
    dst_ipv4_dst_ipv6: Octets

fte_match_set_lyr_2_4: Prm[FteMatchSetLyr24]

class FteMatchSetMisc(View):
    gre_c_present: int
    gre_k_present: int
    gre_s_present: int
    source_vhca_port: int
    source_sqn: int
    source_eswitch_owner_vhca_id: int
    source_port: int
    outer_second_prio: int
    outer_second_cfi: int
    outer_second_vid: int
    inner_second_prio: int
    inner_second_cfi: int
    inner_second_vid: int
    outer_second_cvlan_tag: int
    inner_second_cvlan_tag: int
    outer_second_svlan_tag: int
    inner_second_svlan_tag: int
    gre_protocol: int
    gre_key: Octets
    vxlan_vni: int
    bth_opcode: int
    geneve_vni: int
    geneve_tlv_option_0_exist: int
    geneve_oam: int
    outer_ipv6_flow_label: int
    inner_ipv6_flow_label: int
    geneve_opt_len: int
    geneve_protocol_type: int
    bth_dst_qp: int
    inner_esp_spi: int
    outer_esp_spi: int

fte_match_set_misc: Prm[FteMatchSetMisc]

class FteMatchMpls(View):
    mpls_label: int
    mpls_exp: int
    mpls_s_bos: int
    mpls_ttl: int

fte_match_mpls: Prm[FteMatchMpls]

class FteMatchSetMisc2(View):
    outer_first_mpls: Nested[FteMatchMpls]
    inner_first_mpls: Nested[FteMatchMpls]
    outer_first_mpls_over_gre: Nested[FteMatchMpls]
    outer_first_mpls_over_udp: Nested[FteMatchMpls]
    metadata_reg_c_7: int
    metadata_reg_c_6: int
    metadata_reg_c_5: int
    metadata_reg_c_4: int
    metadata_reg_c_3: int
    metadata_reg_c_2: int
    metadata_reg_c_1: int
    metadata_reg_c_0: int
    metadata_reg_a: int
    macsec_syndrome: int
    ipsec_syndrome: int

fte_match_set_misc2: Prm[FteMatchSetMisc2]

class FteMatchSetMisc3(View):
    inner_tcp_seq_num: int
    outer_tcp_seq_num: int
    inner_tcp_ack_num: int
    outer_tcp_ack_num: int
    outer_vxlan_gpe_vni: int
    outer_vxlan_gpe_next_protocol: int
    outer_vxlan_gpe_flags: int
    icmp_header_data: int
    icmpv6_header_data: int
    icmp_type: int
    icmp_code: int
    icmpv6_type: int
    icmpv6_code: int
    geneve_tlv_option_0_data: int
    gtpu_teid: int
    gtpu_msg_type: int
    gtpu_msg_flags: int
    gtpu_dw_2: int
    gtpu_first_ext_dw_0: int
    gtpu_dw_0: int

fte_match_set_misc3: Prm[FteMatchSetMisc3]

class FteMatchSetMisc4(View):
    prog_sample_field_value_0: int
    prog_sample_field_id_0: int
    prog_sample_field_value_1: int
    prog_sample_field_id_1: int
    prog_sample_field_value_2: int
    prog_sample_field_id_2: int
    prog_sample_field_value_3: int
    prog_sample_field_id_3: int

fte_match_set_misc4: Prm[FteMatchSetMisc4]

class FteMatchSetMisc5(View):
    macsec_tag_0: int
    macsec_tag_1: int
    macsec_tag_2: int
    macsec_tag_3: int
    tunnel_header_0: int
    tunnel_header_1: int
    tunnel_header_2: int
    tunnel_header_3: int

fte_match_set_misc5: Prm[FteMatchSetMisc5]

class FteMatchParam(View):
    outer_headers: Nested[FteMatchSetLyr24]
    misc_parameters: Nested[FteMatchSetMisc]
    inner_headers: Nested[FteMatchSetLyr24]
    misc_parameters_2: Nested[FteMatchSetMisc2]
    misc_parameters_3: Nested[FteMatchSetMisc3]
    misc_parameters_4: Nested[FteMatchSetMisc4]
    misc_parameters_5: Nested[FteMatchSetMisc5]

fte_match_param: Prm[FteMatchParam]

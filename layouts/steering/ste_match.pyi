# Written by scripts/gen-view-types from ste_match.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class SteEthL2SrcV1(View):
    sx_sniffer: int
    functional_loopback: int
    ip_fragmented: int
    qp_type: int
    encapsulation_type: int
    port: int
    l3_type: int
    l4_type: int
    first_vlan_qualifier: int
    first_priority: int
    first_cfi: int
    first_vlan_id: int
    smac_47_16: int
    smac_15_0: int
    l3_ethertype: int
    tcp_syn: int
    force_loopback: int
    l2_ok: int
    l3_ok: int
    l4_ok: int
    second_vlan_qualifier: int
    second_priority: int
    second_cfi: int
    second_vlan_id: int

ste_eth_l2_src_v1: Prm[SteEthL2SrcV1]

class SteEthL2DstV1(View):
    sx_sniffer: int
    functional_lb: int
    ip_fragmented: int
    qp_type: int
    encapsulation_type: int
    port: int
    l3_type: int
    l4_type: int
    first_vlan_qualifier: int
    first_priority: int
    first_cfi: int
    first_vlan_id: int
    dmac_47_16: int
    dmac_15_0: int
    l3_ethertype: int
    tcp_syn: int
    force_lb: int
    l2_ok: int
    l3_ok: int
    l4_ok: int
    second_vlan_qualifier: int
    second_priority: int
    second_cfi: int
    second_vlan_id: int

ste_eth_l2_dst_v1: Prm[SteEthL2DstV1]

class SteEthL2SrcDstV1(View):
    dmac_47_16: int
    smac_47_16: int
    dmac_15_0: int
    functional_lb: int
    port: int
    l3_type: int
    first_vlan_qualifier: int
    first_priority: int
    first_cfi: int
    first_vlan_id: int
    smac_15_0: int

ste_eth_l2_src_dst_v1: Prm[SteEthL2SrcDstV1]

class SteEthL3Ipv45TupleV1(View):
    source_address: int
    destination_address: int
    source_port: int
    destination_port: int
    l4_ok: int
    l3_ok: int
    fragmented: int
    tcp_ns: int
    tcp_cwr: int
    tcp_ece: int
    tcp_urg: int
    tcp_ack: int
    tcp_psh: int
    tcp_rst: int
    tcp_syn: int
    tcp_fin: int
    dscp: int
    ecn: int
    protocol: int

ste_eth_l3_ipv4_5_tuple_v1: Prm[SteEthL3Ipv45TupleV1]

class SteEthL2TnlV1(View):
    l2_tunneling_network_id: int
    dmac_47_16: int
    dmac_15_0: int
    l3_ethertype: int
    ip_fragmented: int
    encp_type: int
    l3_type: int
    l4_type: int
    first_vlan_qualifier: int
    first_priority: int
    first_cfi: int
    first_vlan_id: int

ste_eth_l2_tnl_v1: Prm[SteEthL2TnlV1]

class SteEthL3Ipv4MiscV1(View):
    identification: int
    flags: int
    fragment_offset: int
    total_length: int
    checksum: int
    version: int
    ihl: int
    time_to_live: int
    voq_internal_prio: int

ste_eth_l3_ipv4_misc_v1: Prm[SteEthL3Ipv4MiscV1]

class SteEthL4V1(View):
    ipv6_version: int
    dscp: int
    ecn: int
    ipv6_hop_limit: int
    protocol: int
    src_port: int
    dst_port: int
    first_fragment: int
    flow_label: int
    tcp_data_offset: int
    l4_ok: int
    l3_ok: int
    fragmented: int
    tcp_ns: int
    tcp_cwr: int
    tcp_ece: int
    tcp_urg: int
    tcp_ack: int
    tcp_psh: int
    tcp_rst: int
    tcp_syn: int
    tcp_fin: int
    ipv6_paylen: int

ste_eth_l4_v1: Prm[SteEthL4V1]

class SteEthL4MiscV1(View):
    window_size: int
    urgent_pointer: int
    ack_num: int
    seq_num: int
    length: int
    checksum: int

ste_eth_l4_misc_v1: Prm[SteEthL4MiscV1]

class SteIcmpV1(View):
    icmp_payload_data: int
    icmp_header_data: int
    icmp_type: int
    icmp_code: int

ste_icmp_v1: Prm[SteIcmpV1]

class SteEthL3Ipv6Dst(View):
    dst_ip_127_96: int
    dst_ip_95_64: int
    dst_ip_63_32: int
    dst_ip_31_0: int

ste_eth_l3_ipv6_dst: Prm[SteEthL3Ipv6Dst]

class SteEthL3Ipv6Src(View):
    src_ip_127_96: int
    src_ip_95_64: int
    src_ip_63_32: int
    src_ip_31_0: int

ste_eth_l3_ipv6_src: Prm[SteEthL3Ipv6Src]

class SteGreV1(View):
    gre_c_present: int
    gre_k_present: int
    gre_s_present: int
    strict_src_route: int
    recur: int
    flags: int
    version: int
    gre_protocol: int
    gre_key_h: int
    gre_key_l: int

ste_gre_v1: Prm[SteGreV1]

class SteSrcGvmiQpV1(View):
    loopback_synd: int
    functional_lb: int
    source_gvmi: int
    force_lb: int
    source_is_requestor: int
    source_qp: int

ste_src_gvmi_qp_v1: Prm[SteSrcGvmiQpV1]

class SteIbL4(View):
    opcode: int
    qp: int
    se: int
    migreg: int
    ackreq: int
    fecn: int
    becn: int
    bth: int
    deth: int
    dcceth: int
    pad_count: int
    tver: int
    pkey: int
    deth_source_qp: int

ste_ib_l4: Prm[SteIbL4]

class SteRegister0(View):
    register_0_h: int
    register_0_l: int
    register_1_h: int
    register_1_l: int

ste_register_0: Prm[SteRegister0]

class SteRegister1(View):
    register_2_h: int
    register_2_l: int
    register_3_h: int
    register_3_l: int

ste_register_1: Prm[SteRegister1]

class SteGeneralPurpose(View):
    general_purpose_lookup_field: int

ste_general_purpose: Prm[SteGeneralPurpose]

class SteTunnelHeader(View):
    tunnel_header_0: int
    tunnel_header_1: int

ste_tunnel_header: Prm[SteTunnelHeader]

class SteFlexParser0(View):
    flex_parser_3: int
    flex_parser_2: int
    flex_parser_1: int
    flex_parser_0: int

ste_flex_parser_0: Prm[SteFlexParser0]

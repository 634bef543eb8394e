"""Capability groups of the embedded switch (E-Switch): its flow tables, and its vPorts.

The groups fill the head of a capability page, like those in :mod:`layouts.function.caps`.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.function.eth_caps import flow_table_fields_supported_2, flow_table_prop_layout
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class flow_table_eswitch_cap(Prm):
    fdb_to_vport_reg_c_id = bits(8); _ = rsvd(5); fdb_uplink_hairpin = bits(1)
    fdb_multi_path_any_table_limit_regc = bits(1); _ = rsvd(1); fdb_dynamic_tunnel = bits(1)
    _ = rsvd(1); fdb_multi_path_any_table = bits(1); _ = rsvd(2)
    fdb_modify_header_fwd_to_table = bits(1); fdb_ipv4_ttl_modify = bits(1); flow_source = bits(1)
    _ = rsvd(2); multi_fdb_encap = bits(1); egress_acl_forward_to_vport = bits(1)
    fdb_multi_path_to_table = bits(1); _ = rsvd(3); _ = rsvd(480)
    flow_table_properties_nic_esw_fdb = nested(flow_table_prop_layout)
    flow_table_properties_esw_acl_ingress = nested(flow_table_prop_layout)
    flow_table_properties_esw_acl_egress = nested(flow_table_prop_layout); _ = rsvd(3072)
    ft_field_support_2_esw_fdb = nested(flow_table_fields_supported_2)
    ft_field_bitmask_support_2_esw_fdb = nested(flow_table_fields_supported_2); _ = rsvd(768)
    sw_steering_fdb_action_drop_icm_address_rx = bits(64)
    sw_steering_fdb_action_drop_icm_address_tx = bits(64)
    sw_steering_uplink_icm_address_rx = bits(64); sw_steering_uplink_icm_address_tx = bits(64)
    _ = rsvd(26368)

class e_switch_cap(Prm):
    vport_svlan_strip = bits(1); vport_cvlan_strip = bits(1); vport_svlan_insert = bits(1)
    vport_cvlan_insert_if_not_exist = bits(1); vport_cvlan_insert_overwrite = bits(1); _ = rsvd(1)
    vport_cvlan_insert_always = bits(1); esw_shared_ingress_acl = bits(1)
    esw_uplink_ingress_acl = bits(1); root_ft_on_other_esw = bits(1); _ = rsvd(15)
    esw_functions_changed = bits(1); _ = rsvd(1); ecpf_vport_exists = bits(1)
    counter_eswitch_affinity = bits(1); merged_eswitch = bits(1)
    nic_vport_node_guid_modify = bits(1); nic_vport_port_guid_modify = bits(1)
    vxlan_encap_decap = bits(1); nvgre_encap_decap = bits(1); _ = rsvd(1)
    log_max_fdb_encap_uplink = bits(5); _ = rsvd(3); log_max_packet_reformat_context = bits(5)
    _ = rsvd(6); max_encap_header_size = bits(10)
    _ = rsvd(11); log_max_esw_sf = bits(5); esw_sf_base_id = bits(16); _ = rsvd(1952)

# Written by scripts/gen-view-types from esw_caps.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.function.eth_caps import FlowTableFieldsSupported2, FlowTablePropLayout
from layouts.prm import Prm

class FlowTableEswitchCap(View):
    fdb_to_vport_reg_c_id: int
    fdb_uplink_hairpin: int
    fdb_multi_path_any_table_limit_regc: int
    fdb_dynamic_tunnel: int
    fdb_multi_path_any_table: int
    fdb_modify_header_fwd_to_table: int
    fdb_ipv4_ttl_modify: int
    flow_source: int
    multi_fdb_encap: int
    egress_acl_forward_to_vport: int
    fdb_multi_path_to_table: int
    flow_table_properties_nic_esw_fdb: Nested[FlowTablePropLayout]
    flow_table_properties_esw_acl_ingress: Nested[FlowTablePropLayout]
    flow_table_properties_esw_acl_egress: Nested[FlowTablePropLayout]
    ft_field_support_2_esw_fdb: Nested[FlowTableFieldsSupported2]
    ft_field_bitmask_support_2_esw_fdb: Nested[FlowTableFieldsSupported2]
    sw_steering_fdb_action_drop_icm_address_rx: int
    sw_steering_fdb_action_drop_icm_address_tx: int
    sw_steering_uplink_icm_address_rx: int
    sw_steering_uplink_icm_address_tx: int

flow_table_eswitch_cap: Prm[FlowTableEswitchCap]

class ESwitchCap(View):
    vport_svlan_strip: int
    vport_cvlan_strip: int
    vport_svlan_insert: int
    vport_cvlan_insert_if_not_exist: int
    vport_cvlan_insert_overwrite: int
    vport_cvlan_insert_always: int
    esw_shared_ingress_acl: int
    esw_uplink_ingress_acl: int
    root_ft_on_other_esw: int
    esw_functions_changed: int
    ecpf_vport_exists: int
    counter_eswitch_affinity: int
    merged_eswitch: int
    nic_vport_node_guid_modify: int
    nic_vport_port_guid_modify: int
    vxlan_encap_decap: int
    nvgre_encap_decap: int
    log_max_fdb_encap_uplink: int
    log_max_packet_reformat_context: int
    max_encap_header_size: int
    log_max_esw_sf: int
    esw_sf_base_id: int

e_switch_cap: Prm[ESwitchCap]

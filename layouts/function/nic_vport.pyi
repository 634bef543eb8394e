# Written by scripts/gen-view-types from nic_vport.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm

class MacAddressLayout(View):
    mac_addr_47_32: int
    mac_addr_31_0: int

mac_address_layout: Prm[MacAddressLayout]

class VlanLayout(View):
    vlan: int

vlan_layout: Prm[VlanLayout]

class NicVportContext(View):
    min_wqe_inline_mode: int
    disable_mc_local_lb: int
    disable_uc_local_lb: int
    roce_en: int
    arm_change_event: int
    event_on_mtu: int
    event_on_promisc_change: int
    event_on_vlan_change: int
    event_on_mc_address_change: int
    event_on_uc_address_change: int
    vhca_id_type: int
    affiliation_criteria: int
    affiliated_vhca_id: int
    sd_group: int
    mtu: int
    system_image_guid: int
    port_guid: int
    node_guid: int
    qkey_violation_counter: int
    promisc_uc: int
    promisc_mc: int
    promisc_all: int
    allowed_list_type: int
    allowed_list_size: int
    permanent_address: Nested[MacAddressLayout]
    current_uc_mac_address: Items[int]

nic_vport_context: Prm[NicVportContext]

class QueryNicVportContextIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    allowed_list_type: int

query_nic_vport_context_in: Prm[QueryNicVportContextIn]

class QueryNicVportContextOut(View):
    status: int
    syndrome: int
    nic_vport_context: Nested[NicVportContext]

query_nic_vport_context_out: Prm[QueryNicVportContextOut]

class ModifyNicVportFieldSelect(View):
    affiliation: int
    disable_uc_local_lb: int
    disable_mc_local_lb: int
    node_guid: int
    port_guid: int
    min_inline: int
    mtu: int
    change_event: int
    promisc: int
    permanent_address: int
    addresses_list: int
    roce_en: int

modify_nic_vport_field_select: Prm[ModifyNicVportFieldSelect]

class ModifyNicVportContextIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    field_select: Nested[ModifyNicVportFieldSelect]
    nic_vport_context: Nested[NicVportContext]

modify_nic_vport_context_in: Prm[ModifyNicVportContextIn]

class ModifyNicVportContextOut(View):
    status: int
    syndrome: int

modify_nic_vport_context_out: Prm[ModifyNicVportContextOut]

class ModifyVportStateIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    admin_state: int

modify_vport_state_in: Prm[ModifyVportStateIn]

class ModifyVportStateOut(View):
    status: int
    syndrome: int

modify_vport_state_out: Prm[ModifyVportStateOut]

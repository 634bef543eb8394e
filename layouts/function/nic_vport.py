"""Virtual port of an Ethernet function: MAC addresses, VLANs, MTU, promiscuous modes.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdOut, VportIn
from layouts.prm import Prm, bits, nested, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class mac_address_layout(Prm): _ = rsvd(16); mac_addr_47_32 = bits(16); mac_addr_31_0 = bits(32)
class vlan_layout(Prm): _ = rsvd(20); vlan = bits(12); _ = rsvd(32)

# The list at the end holds MAC addresses (mac_address_layout) or VLANs (vlan_layout); its type is
# allowed_list_type.
class nic_vport_context(Prm):
    _ = rsvd(5); min_wqe_inline_mode = bits(3); _ = rsvd(21); disable_mc_local_lb = bits(1)
    disable_uc_local_lb = bits(1); roce_en = bits(1)
    arm_change_event = bits(1); _ = rsvd(26); event_on_mtu = bits(1)
    event_on_promisc_change = bits(1); event_on_vlan_change = bits(1)
    event_on_mc_address_change = bits(1); event_on_uc_address_change = bits(1)
    vhca_id_type = bits(1); _ = rsvd(11); affiliation_criteria = bits(4)
    affiliated_vhca_id = bits(16); _ = rsvd(161); sd_group = bits(3); _ = rsvd(44); mtu = bits(16)
    system_image_guid = bits(64); port_guid = bits(64); node_guid = bits(64); _ = rsvd(320)
    qkey_violation_counter = bits(16); _ = rsvd(1072)
    promisc_uc = bits(1); promisc_mc = bits(1); promisc_all = bits(1); _ = rsvd(2)
    allowed_list_type = bits(3); _ = rsvd(12); allowed_list_size = bits(12)
    permanent_address = nested(mac_address_layout); _ = rsvd(32)
    current_uc_mac_address = tail(bits(64))

class query_nic_vport_context_in(VportIn):
    _ = rsvd(5); allowed_list_type = bits(3); _ = rsvd(24)

class query_nic_vport_context_out(CmdOut):
    _ = rsvd(64); nic_vport_context = nested(nic_vport_context)

class modify_nic_vport_field_select(Prm):
    _ = rsvd(18); affiliation = bits(1); _ = rsvd(1); disable_uc_local_lb = bits(1)
    disable_mc_local_lb = bits(1); node_guid = bits(1); port_guid = bits(1); min_inline = bits(1)
    mtu = bits(1); change_event = bits(1); promisc = bits(1); permanent_address = bits(1)
    addresses_list = bits(1); roce_en = bits(1); _ = rsvd(1)

class modify_nic_vport_context_in(VportIn):
    field_select = nested(modify_nic_vport_field_select); _ = rsvd(1920)
    nic_vport_context = nested(nic_vport_context)

class modify_nic_vport_context_out(CmdOut): _ = rsvd(64)

class modify_vport_state_in(VportIn):
    _ = rsvd(24); admin_state = bits(4); _ = rsvd(4)

class modify_vport_state_out(CmdOut): _ = rsvd(64)

"""Registers that tell about a link: its state, why it is down, its cable, its lanes' settings.

Names and widths: mlx5_ifc.h of Linux 6.12 has the register and the troubleshooting page; the other
pages and SLTP are those of mstflint's register_access_table.adb.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class pddr_reg(Prm):
    _ = rsvd(8); local_port = bits(8); pnat = bits(2); _ = rsvd(14)
    _ = rsvd(24); page_select = bits(8)
    page_data = octets(248)

class pddr_operation_info_page(Prm):
    _ = rsvd(8); proto_active = bits(4); neg_mode_active = bits(4); _ = rsvd(16)
    phy_mngr_fsm_state = bits(8); eth_an_fsm_state = bits(8); ib_phy_fsm_state = bits(8)
    _ = rsvd(8)
    phy_manager_link_enabled = bits(32)
    core_to_phy_link_enabled = bits(32)
    cable_proto_cap = bits(32)
    link_active = bits(32)
    _ = rsvd(20); loopback_mode = bits(12)
    fec_mode_active = bits(16); fec_mode_request = bits(16)

class pddr_troubleshooting_page(Prm):
    _ = rsvd(16); group_opcode = bits(16)
    _ = rsvd(16); monitor_opcode = bits(16)
    _ = rsvd(32)
    status_message = octets(236)

class pddr_module_info(Prm):
    cable_technology = bits(8); cable_breakout = bits(8)
    ext_ethernet_compliance_code = bits(8); ethernet_compliance_code = bits(8)
    cable_type = bits(4); cable_vendor = bits(4); cable_length = bits(8)
    cable_identifier = bits(8); cable_power_class = bits(8)
    _ = rsvd(96)
    vendor_name = octets(16); vendor_pn = octets(16); vendor_rev = octets(4)
    fw_version = bits(32); vendor_sn = octets(16)

class sltp_reg(Prm):
    status = bits(1); _ = rsvd(3); version = bits(4); local_port = bits(8); pnat = bits(2)
    _ = rsvd(2); lane = bits(4); lane_speed = bits(4); port_type = bits(3); c_db = bits(1)
    _ = rsvd(576)

class ppaos_reg(Prm):
    swid = bits(8); local_port = bits(8); _ = rsvd(4); phy_test_mode_admin = bits(4); _ = rsvd(4)
    phy_test_mode_status = bits(4)
    _ = rsvd(28); phy_status = bits(4); _ = rsvd(64)

"""ACCESS_REG and its registers (PRM "Access registers").

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import Prm, array, bits, octets, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class access_register_in(CmdInNoUid):
    _ = rsvd(16); register_id = bits(16); argument = bits(32); register_data = tail(bits(32))

class access_register_out(CmdOut): _ = rsvd(64); register_data = tail(bits(32))

class pcap_reg(Prm):
    _ = rsvd(8); local_port = bits(8); _ = rsvd(16); port_capability_mask = array(4, bits(32))

class pmtu_reg(Prm):
    _ = rsvd(8); local_port = bits(8); _ = rsvd(16); max_mtu = bits(16); _ = rsvd(16)
    admin_mtu = bits(16); _ = rsvd(16); oper_mtu = bits(16); _ = rsvd(16)

class ptys_reg(Prm):
    _ = rsvd(1); an_disable_admin = bits(1); an_disable_cap = bits(1); _ = rsvd(5)
    local_port = bits(8); _ = rsvd(8); plane_ind = bits(4); _ = rsvd(1); proto_mask = bits(3)
    an_status = bits(4); _ = rsvd(12); data_rate_oper = bits(16)
    ext_eth_proto_capability = bits(32); eth_proto_capability = bits(32)
    ib_link_width_capability = bits(16); ib_proto_capability = bits(16)
    ext_eth_proto_admin = bits(32); eth_proto_admin = bits(32)
    ib_link_width_admin = bits(16); ib_proto_admin = bits(16); ext_eth_proto_oper = bits(32)
    eth_proto_oper = bits(32); ib_link_width_oper = bits(16); ib_proto_oper = bits(16)
    _ = rsvd(28); connector_type = bits(4); eth_proto_lp_advertise = bits(32); _ = rsvd(96)

class paos_reg(Prm):
    swid = bits(8); local_port = bits(8); _ = rsvd(4); admin_status = bits(4); _ = rsvd(4)
    oper_status = bits(4); ase = bits(1); ee = bits(1); _ = rsvd(28); e = bits(2); _ = rsvd(64)

class pvlc_reg(Prm):
    _ = rsvd(8); local_port = bits(8); _ = rsvd(44); vl_hw_cap = bits(4)
    _ = rsvd(28); vl_admin = bits(4); _ = rsvd(28); vl_operational = bits(4)

class ppcnt_reg(Prm):
    swid = bits(8); local_port = bits(8); pnat = bits(2); _ = rsvd(8); grp = bits(6)
    clr = bits(1); _ = rsvd(26); prio_tc = bits(5); counter_set = octets(248)

# Content of counter_set in the group of InfiniBand's port counters.
class ib_port_cntrs_grp_data_layout(Prm):
    symbol_error_counter = bits(16); link_error_recovery_counter = bits(8)
    link_downed_counter = bits(8)
    port_rcv_errors = bits(16); port_rcv_remote_physical_errors = bits(16)
    port_rcv_switch_relay_errors = bits(16); port_xmit_discards = bits(16)
    port_xmit_constraint_errors = bits(8); port_rcv_constraint_errors = bits(8); _ = rsvd(8)
    link_overrun_errors = bits(8); _ = rsvd(16); vl_15_dropped = bits(16); _ = rsvd(128)
    port_xmit_wait = bits(32)

class mrtc_reg(Prm): time_synced = bits(1); _ = rsvd(63); time_h = bits(32); time_l = bits(32)

class mpein_reg(Prm):
    _ = rsvd(2); depth = bits(6); pcie_index = bits(8); node = bits(8); _ = rsvd(8)
    capability_mask = bits(32)
    _ = rsvd(8); link_width_enabled = bits(8); link_speed_enabled = bits(16)
    lane0_physical_position = bits(8); link_width_active = bits(8); link_speed_active = bits(16)
    num_of_pfs = bits(16); num_of_vfs = bits(16); bdf0 = bits(16); _ = rsvd(16)
    max_read_request_size = bits(4); max_payload_size = bits(4); _ = rsvd(5); pwr_status = bits(3)
    port_type = bits(4); _ = rsvd(11); lane_reversal = bits(1); _ = rsvd(20); pci_power = bits(12)
    _ = rsvd(32)
    device_status = bits(16); port_state = bits(8); _ = rsvd(24); receiver_detect_result = bits(16)
    _ = rsvd(32)

# The driver has these two only as C structures.
class node_desc_reg(Prm, c_name="mlx5_reg_node_desc"): desc = octets(64)
class host_endianness_reg(Prm, c_name="mlx5_reg_host_endianness"): he = bits(8); _ = rsvd(15 * 8)

"""ACCESS_REG and its registers (PRM "Access registers").

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, array, bits, octets, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

access_register_in = Prm(
    "access_register_in",
    *CMD_IN_NO_UID, rsvd(16), "register_id" / bits(16), "argument" / bits(32),
    "register_data" / tail(bits(32)),
)

access_register_out = Prm(
    "access_register_out",
    *CMD_OUT, rsvd(64), "register_data" / tail(bits(32)),
)

pcap_reg = Prm(
    "pcap_reg",
    rsvd(8), "local_port" / bits(8), rsvd(16), "port_capability_mask" / array(4, bits(32)),
)

pmtu_reg = Prm(
    "pmtu_reg",
    rsvd(8), "local_port" / bits(8), rsvd(16), "max_mtu" / bits(16), rsvd(16),
    "admin_mtu" / bits(16), rsvd(16), "oper_mtu" / bits(16), rsvd(16),
)

ptys_reg = Prm(
    "ptys_reg",
    rsvd(1), "an_disable_admin" / bits(1), "an_disable_cap" / bits(1), rsvd(5),
    "local_port" / bits(8), rsvd(8), "plane_ind" / bits(4), rsvd(1), "proto_mask" / bits(3),
    "an_status" / bits(4), rsvd(12), "data_rate_oper" / bits(16),
    "ext_eth_proto_capability" / bits(32), "eth_proto_capability" / bits(32),
    "ib_link_width_capability" / bits(16), "ib_proto_capability" / bits(16),
    "ext_eth_proto_admin" / bits(32), "eth_proto_admin" / bits(32),
    "ib_link_width_admin" / bits(16), "ib_proto_admin" / bits(16), "ext_eth_proto_oper" / bits(32),
    "eth_proto_oper" / bits(32), "ib_link_width_oper" / bits(16), "ib_proto_oper" / bits(16),
    rsvd(28), "connector_type" / bits(4), "eth_proto_lp_advertise" / bits(32), rsvd(96),
)

paos_reg = Prm(
    "paos_reg",
    "swid" / bits(8), "local_port" / bits(8), rsvd(4), "admin_status" / bits(4), rsvd(4),
    "oper_status" / bits(4), "ase" / bits(1), "ee" / bits(1), rsvd(28), "e" / bits(2), rsvd(64),
)

pvlc_reg = Prm(
    "pvlc_reg",
    rsvd(8), "local_port" / bits(8), rsvd(44), "vl_hw_cap" / bits(4), rsvd(28),
    "vl_admin" / bits(4), rsvd(28), "vl_operational" / bits(4),
)

ppcnt_reg = Prm(
    "ppcnt_reg",
    "swid" / bits(8), "local_port" / bits(8), "pnat" / bits(2), rsvd(8), "grp" / bits(6),
    "clr" / bits(1), rsvd(26), "prio_tc" / bits(5), "counter_set" / octets(248),
)

# Content of counter_set in the group of InfiniBand's port counters.
ib_port_cntrs_grp_data_layout = Prm(
    "ib_port_cntrs_grp_data_layout",
    "symbol_error_counter" / bits(16), "link_error_recovery_counter" / bits(8),
    "link_downed_counter" / bits(8), "port_rcv_errors" / bits(16),
    "port_rcv_remote_physical_errors" / bits(16), "port_rcv_switch_relay_errors" / bits(16),
    "port_xmit_discards" / bits(16), "port_xmit_constraint_errors" / bits(8),
    "port_rcv_constraint_errors" / bits(8), rsvd(8), "link_overrun_errors" / bits(8), rsvd(16),
    "vl_15_dropped" / bits(16), rsvd(128), "port_xmit_wait" / bits(32),
)

mrtc_reg = Prm(
    "mrtc_reg",
    "time_synced" / bits(1), rsvd(63), "time_h" / bits(32), "time_l" / bits(32),
)

mpein_reg = Prm(
    "mpein_reg",
    rsvd(2), "depth" / bits(6), "pcie_index" / bits(8), "node" / bits(8), rsvd(8),
    "capability_mask" / bits(32), rsvd(8), "link_width_enabled" / bits(8),
    "link_speed_enabled" / bits(16), "lane0_physical_position" / bits(8),
    "link_width_active" / bits(8), "link_speed_active" / bits(16), "num_of_pfs" / bits(16),
    "num_of_vfs" / bits(16), "bdf0" / bits(16), rsvd(16), "max_read_request_size" / bits(4),
    "max_payload_size" / bits(4), rsvd(5), "pwr_status" / bits(3), "port_type" / bits(4), rsvd(11),
    "lane_reversal" / bits(1), rsvd(20), "pci_power" / bits(12), rsvd(32),
    "device_status" / bits(16), "port_state" / bits(8), rsvd(24),
    "receiver_detect_result" / bits(16), rsvd(32),
)

# The driver has these two only as C structures.

node_desc_reg = Prm("node_desc_reg", "desc" / octets(64), c_name="mlx5_reg_node_desc")
host_endianness_reg = Prm(
    "host_endianness_reg", "he" / bits(8), rsvd(15 * 8), c_name="mlx5_reg_host_endianness"
)

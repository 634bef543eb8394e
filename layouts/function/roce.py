"""RoCE address table: the GIDs of an Ethernet port, each with its MAC address and VLAN.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

roce_addr_layout = Prm(
    "roce_addr_layout",
    "source_l3_address" / octets(16), rsvd(3), "vlan_valid" / bits(1), "vlan_id" / bits(12),
    "source_mac_47_32" / bits(16), "source_mac_31_0" / bits(32), rsvd(20), "roce_l3_type" / bits(4),
    "roce_version" / bits(8), rsvd(32),
)

set_roce_address_in = Prm(
    "set_roce_address_in",
    *CMD_IN_NO_UID, "roce_address_index" / bits(16), rsvd(12), "vhca_port_num" / bits(4), rsvd(32),
    "roce_address" / roce_addr_layout,
)

set_roce_address_out = Prm("set_roce_address_out", *CMD_OUT, rsvd(64))

query_roce_address_in = Prm(
    "query_roce_address_in",
    *CMD_IN_NO_UID, "roce_address_index" / bits(16), rsvd(12), "vhca_port_num" / bits(4), rsvd(32),
)

query_roce_address_out = Prm(
    "query_roce_address_out",
    *CMD_OUT, rsvd(64), "roce_address" / roce_addr_layout,
)

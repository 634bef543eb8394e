"""RoCE address table: the GIDs of an Ethernet port, each with its MAC address and VLAN.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class roce_addr_layout(Prm):
    source_l3_address = octets(16)
    _ = rsvd(3); vlan_valid = bits(1); vlan_id = bits(12); source_mac_47_32 = bits(16)
    source_mac_31_0 = bits(32); _ = rsvd(20); roce_l3_type = bits(4); roce_version = bits(8)
    _ = rsvd(32)

class set_roce_address_in(CmdInNoUid):
    roce_address_index = bits(16); _ = rsvd(12); vhca_port_num = bits(4); _ = rsvd(32)
    roce_address = nested(roce_addr_layout)

class set_roce_address_out(CmdOut): _ = rsvd(64)

class query_roce_address_in(CmdInNoUid):
    roce_address_index = bits(16); _ = rsvd(12); vhca_port_num = bits(4); _ = rsvd(32)

class query_roce_address_out(CmdOut): _ = rsvd(64); roce_address = nested(roce_addr_layout)

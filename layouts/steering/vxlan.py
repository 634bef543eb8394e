"""UDP ports on which the adapter parses VXLAN tunnels.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

add_vxlan_udp_dport_in = Prm(
    "add_vxlan_udp_dport_in",
    *CMD_IN_NO_UID, rsvd(48), "vxlan_udp_port" / bits(16),
)

add_vxlan_udp_dport_out = Prm("add_vxlan_udp_dport_out", *CMD_OUT, rsvd(64))

delete_vxlan_udp_dport_in = Prm(
    "delete_vxlan_udp_dport_in",
    *CMD_IN_NO_UID, rsvd(48), "vxlan_udp_port" / bits(16),
)

delete_vxlan_udp_dport_out = Prm("delete_vxlan_udp_dport_out", *CMD_OUT, rsvd(64))

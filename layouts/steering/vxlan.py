"""UDP ports on which the adapter parses VXLAN tunnels.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class add_vxlan_udp_dport_in(CmdInNoUid): _ = rsvd(48); vxlan_udp_port = bits(16)
class add_vxlan_udp_dport_out(CmdOut): _ = rsvd(64)
class delete_vxlan_udp_dport_in(CmdInNoUid): _ = rsvd(48); vxlan_udp_port = bits(16)
class delete_vxlan_udp_dport_out(CmdOut): _ = rsvd(64)

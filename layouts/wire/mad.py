"""MAD_IFC: management datagrams handed to the firmware by command.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import bits, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class mad_ifc_in(CmdInNoUid):
    remote_lid = bits(16); plane_index = bits(8); port = bits(8); _ = rsvd(32); mad = octets(256)

class mad_ifc_out(CmdOut): _ = rsvd(64); response_mad_packet = octets(256)

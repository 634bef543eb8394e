"""MAD_IFC: management datagrams handed to the firmware by command.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

mad_ifc_in = Prm(
    "mad_ifc_in",
    *CMD_IN_NO_UID, "remote_lid" / bits(16), "plane_index" / bits(8), "port" / bits(8), rsvd(32),
    "mad" / octets(256),
)

mad_ifc_out = Prm("mad_ifc_out", *CMD_OUT, rsvd(64), "response_mad_packet" / octets(256))

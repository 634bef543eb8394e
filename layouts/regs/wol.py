"""Wake on LAN.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

query_wol_rol_in = Prm("query_wol_rol_in", *CMD_IN_NO_UID, rsvd(64))

query_wol_rol_out = Prm(
    "query_wol_rol_out",
    *CMD_OUT, rsvd(16), "rol_mode" / bits(8), "wol_mode" / bits(8), rsvd(32),
)

set_wol_rol_in = Prm(
    "set_wol_rol_in",
    *CMD_IN_NO_UID, "rol_mode_valid" / bits(1), "wol_mode_valid" / bits(1), rsvd(14),
    "rol_mode" / bits(8), "wol_mode" / bits(8), rsvd(32),
)

set_wol_rol_out = Prm("set_wol_rol_out", *CMD_OUT, rsvd(64))

"""Wake on LAN.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class query_wol_rol_in(CmdInNoUid): _ = rsvd(64)
class query_wol_rol_out(CmdOut): _ = rsvd(16); rol_mode = bits(8); wol_mode = bits(8); _ = rsvd(32)

class set_wol_rol_in(CmdInNoUid):
    rol_mode_valid = bits(1); wol_mode_valid = bits(1); _ = rsvd(14); rol_mode = bits(8)
    wol_mode = bits(8); _ = rsvd(32)

class set_wol_rol_out(CmdOut): _ = rsvd(64)

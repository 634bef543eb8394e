"""SYNC_STEERING: the adapter drops its cached entries of flow tables.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdOut
from layouts.prm import rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class sync_steering_in(CmdIn): _ = rsvd(192)
class sync_steering_out(CmdOut): _ = rsvd(64)

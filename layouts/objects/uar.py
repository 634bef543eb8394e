"""User access regions (doorbell pages) and user contexts.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdOut
from layouts.prm import bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class alloc_uar_in(CmdIn): _ = rsvd(64)
class alloc_uar_out(CmdOut): _ = rsvd(8); uar = bits(24); _ = rsvd(32)
class dealloc_uar_in(CmdIn): _ = rsvd(8); uar = bits(24); _ = rsvd(32)
class dealloc_uar_out(CmdOut): _ = rsvd(64)

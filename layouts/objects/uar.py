"""User access regions (doorbell pages) and user contexts.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

alloc_uar_in = Prm("alloc_uar_in", *CMD_IN, rsvd(64))
alloc_uar_out = Prm("alloc_uar_out", *CMD_OUT, rsvd(8), "uar" / bits(24), rsvd(32))
dealloc_uar_in = Prm("dealloc_uar_in", *CMD_IN, rsvd(8), "uar" / bits(24), rsvd(32))
dealloc_uar_out = Prm("dealloc_uar_out", *CMD_OUT, rsvd(64))

"""SYNC_STEERING: the adapter drops its cached entries of flow tables.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_OUT
from layouts.prm import Prm, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

sync_steering_in = Prm("sync_steering_in", *CMD_IN, rsvd(192))

sync_steering_out = Prm("sync_steering_out", *CMD_OUT, rsvd(64))

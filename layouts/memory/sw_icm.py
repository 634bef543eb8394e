"""Software ICM: memory of the adapter that drivers write flow tables into (PRM "SW ICM").

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

sw_icm = Prm(
    "sw_icm",
    "modify_field_select" / bits(64), rsvd(24), "log_sw_icm_size" / bits(8), rsvd(32),
    "sw_icm_start_addr" / bits(64), rsvd(320),
)

"""Software ICM: memory of the adapter that drivers write flow tables into (PRM "SW ICM").

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class sw_icm(Prm):
    modify_field_select = bits(64); _ = rsvd(24); log_sw_icm_size = bits(8); _ = rsvd(32)
    sw_icm_start_addr = bits(64); _ = rsvd(320)

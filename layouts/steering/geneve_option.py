"""Geneve options that a device's parser extracts: general objects.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class geneve_tlv_option(Prm):
    modify_field_select = bits(64); _ = rsvd(24); geneve_option_fte_index = bits(8)
    option_class = bits(16); option_type = bits(8); _ = rsvd(3); option_data_length = bits(5)
    _ = rsvd(384)

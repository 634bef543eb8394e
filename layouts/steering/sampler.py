"""Flow samplers: general objects that copy some of the packets to another table.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class sampler_obj(Prm):
    modify_field_select = bits(64)
    table_type = bits(8); level = bits(8); _ = rsvd(15); ignore_flow_level = bits(1)
    sample_ratio = bits(32); _ = rsvd(8); sample_table_id = bits(24)
    _ = rsvd(8); default_table_id = bits(24); sw_steering_icm_address_rx = bits(64)
    sw_steering_icm_address_tx = bits(64); _ = rsvd(160)

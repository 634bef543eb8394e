"""Flow meters: general objects that colour packets by their rate (FLOW_METER_ASO).

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, array, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class flow_meter_parameters(Prm):
    valid = bits(1); bucket_overflow = bits(1); start_color = bits(2)
    both_buckets_on_green = bits(1); _ = rsvd(1); meter_mode = bits(2); _ = rsvd(56)
    _ = rsvd(3); cbs_exponent = bits(5); cbs_mantissa = bits(8); _ = rsvd(3); cir_exponent = bits(5)
    cir_mantissa = bits(8); _ = rsvd(32)
    _ = rsvd(3); ebs_exponent = bits(5); ebs_mantissa = bits(8); _ = rsvd(3); eir_exponent = bits(5)
    eir_mantissa = bits(8); _ = rsvd(96)

class flow_meter_aso_obj(Prm):
    modify_field_select = bits(64); _ = rsvd(72); meter_aso_access_pd = bits(24); _ = rsvd(352)
    flow_meter_parameters = array(2, nested(flow_meter_parameters))

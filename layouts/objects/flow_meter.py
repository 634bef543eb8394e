"""Flow meters: general objects that colour packets by their rate (FLOW_METER_ASO).

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, array, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

flow_meter_parameters = Prm(
    "flow_meter_parameters",
    "valid" / bits(1), "bucket_overflow" / bits(1), "start_color" / bits(2),
    "both_buckets_on_green" / bits(1), rsvd(1), "meter_mode" / bits(2), rsvd(56),
    rsvd(3), "cbs_exponent" / bits(5), "cbs_mantissa" / bits(8),
    rsvd(3), "cir_exponent" / bits(5), "cir_mantissa" / bits(8), rsvd(32),
    rsvd(3), "ebs_exponent" / bits(5), "ebs_mantissa" / bits(8),
    rsvd(3), "eir_exponent" / bits(5), "eir_mantissa" / bits(8), rsvd(96),
)

flow_meter_aso_obj = Prm(
    "flow_meter_aso_obj",
    "modify_field_select" / bits(64), rsvd(72), "meter_aso_access_pd" / bits(24), rsvd(352),
    "flow_meter_parameters" / array(2, flow_meter_parameters),
)

# Written by scripts/gen-view-types from flow_meter.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items
from layouts.prm import Prm

class FlowMeterParameters(View):
    valid: int
    bucket_overflow: int
    start_color: int
    both_buckets_on_green: int
    meter_mode: int
    cbs_exponent: int
    cbs_mantissa: int
    cir_exponent: int
    cir_mantissa: int
    ebs_exponent: int
    ebs_mantissa: int
    eir_exponent: int
    eir_mantissa: int

flow_meter_parameters: Prm[FlowMeterParameters]

class FlowMeterAsoObj(View):
    modify_field_select: int
    meter_aso_access_pd: int
    flow_meter_parameters: Items[FlowMeterParameters]

flow_meter_aso_obj: Prm[FlowMeterAsoObj]

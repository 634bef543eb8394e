# Written by scripts/gen-view-types from sampler.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class SamplerObj(View):
    modify_field_select: int
    table_type: int
    level: int
    ignore_flow_level: int
    sample_ratio: int
    sample_table_id: int
    default_table_id: int
    sw_steering_icm_address_rx: int
    sw_steering_icm_address_tx: int

sampler_obj: Prm[SamplerObj]

# Written by scripts/gen-view-types from geneve_option.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class GeneveTlvOption(View):
    modify_field_select: int
    geneve_option_fte_index: int
    option_class: int
    option_type: int
    option_data_length: int

geneve_tlv_option: Prm[GeneveTlvOption]

# Written by scripts/gen-view-types from sw_icm.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class SwIcm(View):
    modify_field_select: int
    log_sw_icm_size: int
    sw_icm_start_addr: int

sw_icm: Prm[SwIcm]

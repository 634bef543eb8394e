# Written by scripts/gen-view-types from roce_accl.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class RoceAcclReg(View):
    adp_retx_profile_select: int
    selective_repeat_forced_en_field_select: int
    adaptive_routing_forced_en_field_select: int
    min_ack_timeout_limit_disabled_field_select: int
    roce_slow_restart_idle_field_select: int
    roce_slow_restart_field_select: int
    roce_tx_window_field_select: int
    roce_adp_retrans_field_select: int
    selective_repeat_forced_en: int
    adaptive_routing_forced_en: int
    min_ack_timeout_limit_disabled: int
    roce_slow_restart_idle_en: int
    roce_slow_restart_en: int
    roce_tx_window_en: int
    roce_adp_retrans_en: int

roce_accl_reg: Prm[RoceAcclReg]

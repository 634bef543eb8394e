"""Register ROCE_ACCL: loss recovery of RoCE connections.

Names: NVIDIA's documentation of the register ("Adaptive Retransmission: Parameters Control"); no
driver reads it. The profile of adaptive retransmission, in the last 48 bytes, has no fields here.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class roce_accl_reg(Prm):
    _ = rsvd(3); adp_retx_profile_select = bits(1); _ = rsvd(21)
    selective_repeat_forced_en_field_select = bits(1)
    adaptive_routing_forced_en_field_select = bits(1)
    min_ack_timeout_limit_disabled_field_select = bits(1)
    roce_slow_restart_idle_field_select = bits(1); roce_slow_restart_field_select = bits(1)
    roce_tx_window_field_select = bits(1); roce_adp_retrans_field_select = bits(1)
    _ = rsvd(25); selective_repeat_forced_en = bits(1); adaptive_routing_forced_en = bits(1)
    min_ack_timeout_limit_disabled = bits(1); roce_slow_restart_idle_en = bits(1)
    roce_slow_restart_en = bits(1); roce_tx_window_en = bits(1); roce_adp_retrans_en = bits(1)
    _ = rsvd(448)

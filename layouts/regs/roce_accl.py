"""Register ROCE_ACCL: loss recovery of RoCE connections.

Names: NVIDIA's documentation of the register ("Adaptive Retransmission: Parameters Control"); no
driver reads it. The profile of adaptive retransmission, in the last 48 bytes, has no fields here.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

roce_accl_reg = Prm(
    "roce_accl_reg",
    rsvd(3), "adp_retx_profile_select" / bits(1), rsvd(21),
    "selective_repeat_forced_en_field_select" / bits(1),
    "adaptive_routing_forced_en_field_select" / bits(1),
    "min_ack_timeout_limit_disabled_field_select" / bits(1),
    "roce_slow_restart_idle_field_select" / bits(1), "roce_slow_restart_field_select" / bits(1),
    "roce_tx_window_field_select" / bits(1), "roce_adp_retrans_field_select" / bits(1),
    rsvd(25),
    "selective_repeat_forced_en" / bits(1), "adaptive_routing_forced_en" / bits(1),
    "min_ack_timeout_limit_disabled" / bits(1), "roce_slow_restart_idle_en" / bits(1),
    "roce_slow_restart_en" / bits(1), "roce_tx_window_en" / bits(1),
    "roce_adp_retrans_en" / bits(1), rsvd(448),
)

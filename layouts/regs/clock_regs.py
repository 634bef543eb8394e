"""Registers of the adapter's clock: pulses on its pins, time of day.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class mtpps_reg(Prm):
    _ = rsvd(12); cap_number_of_pps_pins = bits(4); _ = rsvd(4)
    cap_max_num_of_pps_in_pins = bits(4); _ = rsvd(4); cap_max_num_of_pps_out_pins = bits(4)
    _ = rsvd(19); cap_log_min_npps_period = bits(5); _ = rsvd(3)
    cap_log_min_out_pulse_duration_ns = bits(5)
    _ = rsvd(4); cap_pin_3_mode = bits(4); _ = rsvd(4); cap_pin_2_mode = bits(4); _ = rsvd(4)
    cap_pin_1_mode = bits(4); _ = rsvd(4); cap_pin_0_mode = bits(4)
    _ = rsvd(4); cap_pin_7_mode = bits(4); _ = rsvd(4); cap_pin_6_mode = bits(4); _ = rsvd(4)
    cap_pin_5_mode = bits(4); _ = rsvd(4); cap_pin_4_mode = bits(4); field_select = bits(32)
    _ = rsvd(32); npps_period = bits(64)
    enable = bits(1); _ = rsvd(11); pattern = bits(4); _ = rsvd(4); pin_mode = bits(4)
    pin = bits(8); _ = rsvd(2); out_pulse_duration_ns = bits(30); time_stamp = bits(64)
    out_pulse_duration = bits(16); out_periodic_adjustment = bits(16)
    enhanced_out_periodic_adjustment = bits(32); _ = rsvd(32)

class mtppse_reg(Prm):
    _ = rsvd(24); pin = bits(8); event_arm = bits(1); _ = rsvd(27); event_generation_mode = bits(4)
    _ = rsvd(64)

class mtutc_reg(Prm):
    _ = rsvd(5); freq_adj_units = bits(3); _ = rsvd(3); log_max_freq_adjustment = bits(5)
    _ = rsvd(12); operation = bits(4); freq_adjustment = bits(32); _ = rsvd(64); utc_sec = bits(32)
    _ = rsvd(2); utc_nsec = bits(30); time_adjustment = bits(32)

# Written by scripts/gen-view-types from clock_regs.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class MtppsReg(View):
    cap_number_of_pps_pins: int
    cap_max_num_of_pps_in_pins: int
    cap_max_num_of_pps_out_pins: int
    cap_log_min_npps_period: int
    cap_log_min_out_pulse_duration_ns: int
    cap_pin_3_mode: int
    cap_pin_2_mode: int
    cap_pin_1_mode: int
    cap_pin_0_mode: int
    cap_pin_7_mode: int
    cap_pin_6_mode: int
    cap_pin_5_mode: int
    cap_pin_4_mode: int
    field_select: int
    npps_period: int
    enable: int
    pattern: int
    pin_mode: int
    pin: int
    out_pulse_duration_ns: int
    time_stamp: int
    out_pulse_duration: int
    out_periodic_adjustment: int
    enhanced_out_periodic_adjustment: int

mtpps_reg: Prm[MtppsReg]

class MtppseReg(View):
    pin: int
    event_arm: int
    event_generation_mode: int

mtppse_reg: Prm[MtppseReg]

class MtutcReg(View):
    freq_adj_units: int
    log_max_freq_adjustment: int
    operation: int
    freq_adjustment: int
    utc_sec: int
    utc_nsec: int
    time_adjustment: int

mtutc_reg: Prm[MtutcReg]

"""Registers of the adapter's clock: the time of day, and pulses on its pins.

The driver writes them when phc_ctl, ptp4l or testptp use /dev/ptp (core/lib/clock.c). The time of
day exists when the adapter is configured for its real-time clock.

Source: PRM "MTUTC", "MTPPS", "MTPPSE".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.adapter.real_time import SECOND_NS
from emu.device.engine import pulses
from emu.device.errors import BadParamError
from emu.device.objects.pins import PINS, EventMode, Pin, PinMode
from firmware_cmds.regs.registers import AccessRegister
from layouts.enums.regs import RegId
from layouts.regs import clock_regs as layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca

_SET_TIME, _ADJUST_TIME, _ADJUST_FREQUENCY = 1, 2, 3
"""Values of mtutc_reg.operation (mlx5_ifc.h: MLX5_MTUTC_OPERATION_*)."""
_PPB, _SCALED_PPM = 0, 1
"""Values of mtutc_reg.freq_adj_units."""
_LOG_MAX_PPB = 26
"""log2 of the largest correction, 67 ms in a second; Linux uses up to 50 ms
(mlx5_ptp_clock_info.max_adj).
"""
_ENABLE, _PATTERN, _PIN_MODE, _TIME_STAMP, _PERIOD, _DURATION = 0, 2, 3, 4, 9, 10
"""Bits of mtpps_reg.field_select (core/lib/clock.c: MLX5_MTPPS_FS_*)."""
_CHOICES = sum(1 << bit for bit in (_ENABLE, _PATTERN, _PIN_MODE, _TIME_STAMP, _PERIOD, _DURATION))
_IN_AND_OUT = 0b11
_SIGN = 1 << 31
_WORDS = 1 << 32


def _check_clock(caps: Caps) -> None:
    if not caps.general.rq_ts_format:
        raise BadParamError("register not supported", "no real-time clock")


def _signed(word: int) -> int:
    return word - _WORDS if word & _SIGN else word


def _mtutc(hca: Hca, reg: layout.mtutc_reg) -> None:
    """Fill in the time of day and log_max_freq_adjustment, the largest frequency adjustment.

    Refuse with BAD_PARAM_ERR without a real-time clock.
    """
    _check_clock(hca.caps)
    seconds, rest = divmod(hca.adapter.real_time.at(hca.clock.now_ns()), SECOND_NS)
    reg.log_max_freq_adjustment = _LOG_MAX_PPB
    reg.utc_sec, reg.utc_nsec = seconds & 0xFFFFFFFF, rest


def _set_mtutc(hca: Hca, reg: layout.mtutc_reg) -> None:
    """Set the time, adjust it, or change the clock's frequency.

    Only the manager may write it. Scheduled pulses follow the change. Refuse with BAD_PARAM_ERR an
    unknown operation, a value out of range, and a function without a real-time clock.
    """
    _check_clock(hca.caps)
    now, clock = hca.clock.now_ns(), hca.adapter.real_time
    if reg.operation == _SET_TIME:
        if reg.utc_nsec >= SECOND_NS:
            raise BadParamError("utc_nsec of a second or more", f"{reg.utc_nsec}")
        clock.set(reg.utc_sec * SECOND_NS + reg.utc_nsec, now)
    elif reg.operation == _ADJUST_TIME:
        clock.adjust(_signed(reg.time_adjustment), now)
    elif reg.operation == _ADJUST_FREQUENCY:
        clock.correct(_correction(reg), now)
    else:
        raise BadParamError("unknown operation on the clock", f"{reg.operation}")
    pulses.clock_changed(hca)


def _correction(reg: layout.mtutc_reg) -> int:
    """Return the correction in units of 1 / (1000000 << 16).

    Raises BAD_PARAM_ERR for unknown units, and for more than 67 ms in a second.
    """
    freq_adjustment = _signed(reg.freq_adjustment)
    if reg.freq_adj_units > _SCALED_PPM:
        raise BadParamError("unknown units of frequency", f"{reg.freq_adj_units}")
    scaled = (
        freq_adjustment if reg.freq_adj_units == _SCALED_PPM else (freq_adjustment << 16) // 1000
    )
    if abs(scaled) > (1 << _LOG_MAX_PPB << 16) // 1000:
        raise BadParamError("frequency adjustment too large", f"{freq_adjustment}")
    return scaled


def _pin(caps: Caps, pins: Sequence[Pin], number: int) -> Pin:
    """Return the pin; raise BAD_PARAM_ERR for an unknown one, and without the capability pps."""
    if not caps.general.pps:
        raise BadParamError("register not supported", "no pins")
    if number >= PINS:
        raise BadParamError("no such pin", f"{number}")
    return pins[number]


def _mtpps(hca: Hca, reg: layout.mtpps_reg) -> None:
    """Fill in the pins' capabilities, and the function of one pin.

    Refuse an unknown pin with BAD_PARAM_ERR, and any without the capability pps.
    """
    pin = _pin(hca.caps, hca.pins, reg.pin)
    reg.cap_number_of_pps_pins = PINS
    reg.cap_max_num_of_pps_in_pins = reg.cap_max_num_of_pps_out_pins = PINS
    reg.cap_log_min_npps_period = pulses.LOG_MIN_PERIOD_NS
    reg.cap_log_min_out_pulse_duration_ns = pulses.LOG_MIN_DURATION_NS
    for number in range(PINS):
        setattr(reg, f"cap_pin_{number}_mode", _IN_AND_OUT)
    reg.enable, reg.pin_mode, reg.pattern = pin.is_on, pin.mode, pin.pattern
    reg.time_stamp = pin.time_stamp
    reg.npps_period = (pin.period_ns // SECOND_NS) << 32 | pin.period_ns % SECOND_NS
    reg.out_pulse_duration_ns = pin.duration_ns


def _set_mtpps(hca: Hca, reg: layout.mtpps_reg) -> None:
    """Set the fields that ``field_select`` names, and start or stop the pulses.

    Refuse with BAD_PARAM_ERR an unknown pin or mode, and the values that _check_pulses refuses.
    Unknown bits are ignored.
    """
    pin = _pin(hca.caps, hca.pins, reg.pin)
    chosen = [bit for bit in range(32) if reg.field_select >> bit & 1 and _CHOICES >> bit & 1]
    period = (reg.npps_period >> 32) * SECOND_NS + (reg.npps_period & 0xFFFFFFFF)
    duration = int(reg.out_pulse_duration_ns)
    _check_pulses(
        pin, period if _PERIOD in chosen else None, duration if _DURATION in chosen else None
    )
    if _PIN_MODE in chosen and reg.pin_mode not in tuple(PinMode):
        raise BadParamError("unknown mode of a pin", f"{reg.pin_mode}")
    values = {
        _ENABLE: ("is_on", bool(reg.enable)), _PATTERN: ("pattern", reg.pattern),
        _PIN_MODE: ("mode", reg.pin_mode), _TIME_STAMP: ("time_stamp", reg.time_stamp),
        _PERIOD: ("period_ns", period), _DURATION: ("duration_ns", duration),
    }  # fmt: skip
    for bit in chosen:
        setattr(pin, *values[bit])
    pulses.pin_changed(hca, pin)
    _mtpps(hca, reg)


def _check_pulses(pin: Pin, period: int | None, duration: int | None) -> None:
    """Raise BAD_PARAM_ERR for a new period or duration out of range, or unfit for the other one.

    Both are in ns; None keeps the pin's value. A duration of 0 is the default one, without a limit.
    """
    if period is not None and not (1 << pulses.LOG_MIN_PERIOD_NS <= period <= pulses.MAX_PERIOD_NS):
        raise BadParamError("period of pulses out of range", f"{period} ns")
    if duration and duration < 1 << pulses.LOG_MIN_DURATION_NS:
        raise BadParamError("pulses below cap_log_min_out_pulse_duration_ns", f"{duration} ns")
    new_period = pin.period_ns if period is None else period
    new_duration = pin.duration_ns if duration is None else duration
    if new_period and new_duration >= new_period:
        raise BadParamError("pulses longer than their period", f"{new_duration}")


def _mtppse(hca: Hca, reg: layout.mtppse_reg) -> None:
    pin = _pin(hca.caps, hca.pins, reg.pin)
    reg.event_generation_mode, reg.event_arm = pin.events, 0


def _set_mtppse(hca: Hca, reg: layout.mtppse_reg) -> None:
    """Set whether the driver gets events of a pin's pulses: never, always, or for the next one.

    Refuse an unknown pin or mode with BAD_PARAM_ERR.
    """
    pin = _pin(hca.caps, hca.pins, reg.pin)
    if reg.event_generation_mode not in tuple(EventMode):
        raise BadParamError("unknown event mode of a pin", f"{reg.event_generation_mode}")
    pin.events = EventMode(reg.event_generation_mode)
    pin.is_armed = pin.events is not EventMode.ONCE or bool(reg.event_arm)


REGISTERS: dict[int, AccessRegister[Hca]] = {
    RegId.MTUTC: AccessRegister(
        layout.mtutc_reg, _mtutc, _set_mtutc, gate="mcam_reg", is_shared=True
    ),
    RegId.MTPPS: AccessRegister(layout.mtpps_reg, _mtpps, _set_mtpps, gate="mcam_reg"),
    RegId.MTPPSE: AccessRegister(layout.mtppse_reg, _mtppse, _set_mtppse, gate="mcam_reg"),
}
"""Registers of a function that manages the clock."""

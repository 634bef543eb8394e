"""Pulses that go out of a pin and come in at the other one (``emu.device.objects.pins``).

Each is a rising edge, and a falling one after its duration. The driver hears of both ends: where a
pulse goes out it may have to say when the next one is, where one comes in it wants to know when.

Source: PRM "MTPPS", "MTPPSE"; core/lib/clock.c: mlx5_perout_configure, mlx5_pps_event.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.adapter.real_time import from_stamp
from emu.device.engine.events.eq import raise_event
from emu.device.objects.pins import PINS, EventMode, Pin, PinMode
from layouts.enums import EventType
from layouts.rings.eqe import eqe_pps

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

LOG_LEAST_PERIOD_NS: Final = 20
"""A millisecond: what a driver can follow."""
LOG_LEAST_DURATION_NS: Final = 10
MAX_PERIOD_NS: Final = 1 << 40
_USUAL_DURATION_NS: Final = 100_000_000
"""Of pulses for which the driver has no say (once a second)."""
_RISING: Final = 0
_FALLING: Final = 1


def pin_changed(hca: Hca, pin: Pin) -> None:
    """The driver has set a pin: begin or end its pulses."""
    pin.stop()
    if pin.is_on and pin.mode == PinMode.OUT:
        _wait(hca, pin, _due(hca, pin))


def clock_changed(hca: Hca) -> None:
    """The time of day has been set, so pulses go out at other moments."""
    for pin in hca.pins:
        if pin.timer is not None:
            pin_changed(hca, pin)


def _due(hca: Hca, pin: Pin) -> int | None:
    """In how many nanoseconds the next pulse goes out; None for none.

    One whose time is past goes out after whole periods, and without a period not at all: the driver
    that asks for it is late, and says when the next one is.
    """
    now = hca.clock.now_ns()
    if not hca.caps.general.rq_ts_format:
        left = pin.time_stamp - now
        return left if left > 0 else None
    clock = hca.adapter.real_time
    due = from_stamp(pin.time_stamp)
    late = clock.at(now) - due
    if late >= 0:
        if not pin.period_ns:
            return None
        due += (late // pin.period_ns + 1) * pin.period_ns
    return max(clock.until(due, now), 0)


def _wait(hca: Hca, pin: Pin, delay_ns: int | None) -> None:
    if delay_ns is not None:
        pin.timer = hca.clock.call_later(delay_ns, partial(_rise, hca, pin))


def _rise(hca: Hca, pin: Pin) -> None:
    """A pulse begins."""
    stamp = _stamp(hca)
    _tell(hca, pin, stamp)
    _arrives(hca, pin, _RISING, stamp)
    duration = pin.duration_ns or min(pin.period_ns // 2 or _USUAL_DURATION_NS, _USUAL_DURATION_NS)
    pin.timer = hca.clock.call_later(duration, partial(_fall, hca, pin))


def _fall(hca: Hca, pin: Pin) -> None:
    """It ends."""
    pin.timer = None
    _arrives(hca, pin, _FALLING, _stamp(hca))
    _wait(hca, pin, _due(hca, pin))


def _stamp(hca: Hca) -> int:
    now = hca.clock.now_ns()
    return hca.adapter.real_time.stamp(now) if hca.caps.general.rq_ts_format else now


def _arrives(hca: Hca, source: Pin, edge: int, stamp: int) -> None:
    """An edge comes in at the other pin."""
    pin = hca.pins[(source.number + 1) % PINS]
    if pin.is_on and pin.mode == PinMode.IN and pin.pattern == edge:
        _tell(hca, pin, stamp)


def _tell(hca: Hca, pin: Pin, stamp: int) -> None:
    if pin.events is EventMode.NEVER or not pin.is_armed:
        return
    pin.is_armed = pin.events is EventMode.ALWAYS
    raise_event(hca, EventType.PPS_EVENT, bytes(eqe_pps.new(pin=pin.number, time_stamp=stamp)))

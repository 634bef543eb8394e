"""Pulses per second: pulses leave one pin and arrive at the other (``emu.device.objects.pins``).

Each pulse is a rising edge, and a falling edge after its duration. The driver gets events of both
pins: of the sender, because it may have to schedule the next pulse; of the receiver, for the time
stamp.

Source: PRM "MTPPS", "MTPPSE"; core/lib/clock.c: mlx5_perout_configure, mlx5_pps_event.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.adapter.real_time import from_stamp
from emu.device.engine.events.eq import raise_event
from emu.device.objects.pins import PINS, EventMode, Pin, PinMode
from layouts.enums.eqe import EventType
from layouts.rings.eqe import eqe_pps

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.events import Events
    from emu.device.state.hca import Hca
    from emu.device.state.timer import FreeRunningTimer

LOG_MIN_PERIOD_NS: Final = 20
"""Shortest period: 2**20 ns, about 1 ms, which a driver can follow."""
LOG_MIN_DURATION_NS: Final = 10
MAX_PERIOD_NS: Final = 1 << 40
_USUAL_DURATION_NS: Final = 100_000_000
"""Longest default duration, for pulses whose duration the driver cannot set (once a second)."""
_RISING: Final = 0
_FALLING: Final = 1


def pin_changed(hca: Hca, pin: Pin) -> None:
    """Stop a pin's pulses after the driver has set it; start anew if it is an enabled output."""
    pin.stop()
    if pin.is_on and pin.mode == PinMode.OUT:
        _wait(hca, pin, _due(hca.cqes.ticks, hca.caps, pin))


def clock_changed(hca: Hca) -> None:
    """Reschedule the pulses of all pins that have one pending, after the clock has been set."""
    for pin in hca.pins:
        if pin.timer is not None:
            pin_changed(hca, pin)


def _due(ticks: FreeRunningTimer, caps: Caps, pin: Pin) -> int | None:
    """Return the delay in nanoseconds until the next pulse; None without one.

    A start in the past moves ahead by whole periods. Without a period the pulse is skipped: the
    driver set it late, and schedules the next one.
    """
    now = ticks.now_ns()
    if not caps.general.rq_ts_format:
        left = pin.time_stamp - now
        return left if left > 0 else None
    clock = ticks.real_time
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
    """Start a pulse: report it for this pin, deliver the rising edge, schedule the falling edge.

    Without a duration, the pulse lasts half its period, at most 0.1 s.
    """
    stamp = _stamp(hca.cqes.ticks, hca.caps)
    _report(hca.events, pin, stamp)
    _arrives(hca.events, hca.pins, pin, _RISING, stamp)
    duration = pin.duration_ns or min(pin.period_ns // 2 or _USUAL_DURATION_NS, _USUAL_DURATION_NS)
    pin.timer = hca.clock.call_later(duration, partial(_fall, hca, pin))


def _fall(hca: Hca, pin: Pin) -> None:
    """End the pulse: deliver the falling edge, and schedule the next pulse if one is due."""
    pin.timer = None
    _arrives(hca.events, hca.pins, pin, _FALLING, _stamp(hca.cqes.ticks, hca.caps))
    _wait(hca, pin, _due(hca.cqes.ticks, hca.caps, pin))


def _stamp(ticks: FreeRunningTimer, caps: Caps) -> int:
    return ticks.real_stamp() if caps.general.rq_ts_format else ticks.now_ns()


def _arrives(events: Events, pins: Sequence[Pin], source: Pin, edge: int, stamp: int) -> None:
    """Deliver an edge to the board's other pin, which reports it if it is an input for this edge.

    An input reports one kind of edge, rising or falling, as the driver has set it.
    """
    pin = pins[(source.number + 1) % PINS]
    if pin.is_on and pin.mode == PinMode.IN and pin.pattern == edge:
        _report(events, pin, stamp)


def _report(events: Events, pin: Pin, stamp: int) -> None:
    """Raise PPS_EVENT for a pin, unless its events are off or disarmed.

    An event armed for one pulse only disarms itself.
    """
    if pin.events is EventMode.NEVER or not pin.is_armed:
        return
    pin.is_armed = pin.events is EventMode.ALWAYS
    raise_event(events, EventType.PPS_EVENT, bytes(eqe_pps.new(pin=pin.number, time_stamp=stamp)))

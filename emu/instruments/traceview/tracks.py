"""Which line of a picture an event is drawn on, and what it is called there.

A track is a queue, a command slot, an interrupt vector: what is done there one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from emu.device.trace.event import KERNEL, TraceEvent, TracePoint
from emu.device.trace.stored import kind_of
from emu.device.trace.text import number

MAX_TRACKS = 4096
"""More than a run has; a file that names more has the rest on one track."""

_LONGEST = 120
_BIGGEST = 1 << 53
"""From here on a double, as which most readers keep a number, has no place for its last bit."""


@dataclass(frozen=True, slots=True)
class TrackSpan:
    """When an event was, in nanoseconds: commands and page faults last, the rest is a moment."""

    start_ns: int
    duration_ns: int


def span(event: TraceEvent) -> TrackSpan:
    """The event's span; it is recorded at its end."""
    lasted = event.fields.get("duration_us", 0)
    known = isinstance(lasted, int | float) and 0 <= lasted < 1e12
    duration_ns = round(lasted * 1000) if known else 0
    return TrackSpan(event.t_ns - duration_ns, duration_ns)


def name_of(event: TraceEvent) -> str:
    """What the event is called."""
    if event.point == TracePoint.FAULT:
        return f"page fault, {event.fields.get('outcome')}"[:_LONGEST]
    if event.point == TracePoint.LOG:
        return "log"
    point, kind = kind_of(event)
    return (kind or point)[:_LONGEST]


def fields_of(event: TraceEvent) -> Any:
    """The event's fields, without numbers that a reader of JSON would round: those become text."""
    return _plain(dict(event.fields))


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return hex(value) if type(value) is int and abs(value) >= _BIGGEST else value


def track_of(event: TraceEvent) -> str:
    """The track's name, within the event's function."""
    where = _TRACKS.get(event.point)
    return where(event.fields)[:_LONGEST] if where is not None else event.point[:_LONGEST]


def owner(function: int) -> str:
    """Whose tracks these are, in words."""
    return "guest's kernel" if function == KERNEL else f"function {function}"


def _mmio(fields: Mapping[str, Any]) -> str:
    return f"doorbells, UAR {number(fields['uar'])}" if "uar" in fields else "registers"


_TRACKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    TracePoint.RESET: lambda fields: "resets",
    TracePoint.CMD: lambda fields: f"commands, slot {fields.get('slot')}",
    TracePoint.MMIO: _mmio,
    TracePoint.WQE: lambda fields: f"WQEs, queue {number(fields.get('qpn'))}",
    TracePoint.CQE: lambda fields: f"CQEs, CQ {number(fields.get('cqn'))}",
    TracePoint.EQE: lambda fields: f"events, EQ {number(fields.get('eqn'))}",
    TracePoint.IRQ: lambda fields: f"interrupts, vector {fields.get('vector')}",
    TracePoint.FAULT: lambda fields: f"page faults, queue {number(fields.get('qpn'))}",
    TracePoint.LOG: lambda fields: "kernel log",
    TracePoint.CALL: lambda fields: f"calls, processor {fields.get('cpu')}",
}


def order_of(event: TraceEvent) -> int:
    """Where the event's track stands among the tracks: queues come before commands."""
    return _ORDER.get(event.point, len(_ORDER))


_FIRST = (TracePoint.WQE, TracePoint.CQE, TracePoint.FAULT, TracePoint.EQE, TracePoint.IRQ)
_ORDER = {point: number for number, point in enumerate(dict.fromkeys((*_FIRST, *_TRACKS)))}


class Tracks:
    """Numbers the tracks as they come, and remembers their names."""

    def __init__(self) -> None:
        self.names: list[tuple[int, str]] = []
        """Function and name of each track."""
        self._numbers: dict[tuple[int, str], int] = {}

    def number(self, event: TraceEvent) -> int:
        """The number of the event's track."""
        key = event.function, track_of(event)
        if key not in self._numbers:
            if len(self.names) >= MAX_TRACKS:
                key = 0, "other tracks"
            if key not in self._numbers:
                self._numbers[key] = len(self.names)
                self.names.append(key)
        return self._numbers[key]

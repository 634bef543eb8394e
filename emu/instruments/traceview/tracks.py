"""Assigns events to tracks of a time line, and names both.

A track is a queue, a command slot or an interrupt vector, whose events are sequential.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from emu.device.trace.event import KERNEL, TraceEvent, TracePoint
from emu.device.trace.stored import kind_of
from emu.device.trace.text import number

MAX_TRACKS = 4096
"""Exceeds the tracks of any run; further events share one track."""

_MAX_NAME_CHARS = 120
_MAX_NESTED = 32
"""Exceeds the depth of any event's fields; a file may nest hundreds."""
_MAX_EXACT = 1 << 53
"""From this value on, most JSON readers, which use doubles, may round integers."""


@dataclass(frozen=True, slots=True)
class TrackSpan:
    """Start and duration of an event in nanoseconds; only commands and page faults last."""

    start_ns: int
    duration_ns: int


def span(event: TraceEvent) -> TrackSpan:
    """Return the event's start and duration; ``t_ns`` is its end.

    The duration is 0 for an event without a valid ``duration_us``.
    """
    lasted = event.fields.get("duration_us", 0)
    known = isinstance(lasted, int | float) and 0 <= lasted < 1e12
    duration_ns = round(lasted * 1000) if known else 0
    return TrackSpan(event.t_ns - duration_ns, duration_ns)


def name_of(event: TraceEvent) -> str:
    """Return the event's name: its kind with any error, or else its point.

    A command's kind is the opcode. Page faults have their outcome, refused requests the check;
    kernel messages are "log". Names are cut at 120 characters.
    """
    if event.point == TracePoint.FAULT:
        return f"page fault, {event.fields.get('outcome')}"[:_MAX_NAME_CHARS]
    if event.point == TracePoint.NAK:
        return str(event.fields.get("check"))[:_MAX_NAME_CHARS]
    if event.point == TracePoint.LOG:
        return "log"
    point, kind = kind_of(event)
    return (kind or point)[:_MAX_NAME_CHARS]


def fields_of(event: TraceEvent) -> Any:
    """Return the event's fields; numbers that JSON readers would round or refuse become text.

    Containers in more than 32 others become "...".
    """
    return _plain(dict(event.fields))


def _plain(value: object, depth: int = 0) -> Any:
    """Return the value with integers from 2**53 on as hexadecimal text, also in containers.

    Floating-point numbers that are not finite become text, too.
    """
    if isinstance(value, (dict, list)) and depth > _MAX_NESTED:
        return "..."
    if isinstance(value, dict):
        return {name: _plain(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return hex(value) if type(value) is int and abs(value) >= _MAX_EXACT else value


def track_of(event: TraceEvent) -> str:
    """Return the track's name within the event's function.

    The point's name for an unknown point.
    """
    where = _TRACKS.get(event.point)
    return (
        where(event.fields)[:_MAX_NAME_CHARS]
        if where is not None
        else event.point[:_MAX_NAME_CHARS]
    )


def owner(function: int) -> str:
    """Return the name of the owner of tracks: a function or the guest's kernel."""
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
    TracePoint.NAK: lambda fields: f"refused requests, queue {number(fields.get('qpn'))}",
    TracePoint.FAULT: lambda fields: f"page faults, queue {number(fields.get('qpn'))}",
    TracePoint.LOG: lambda fields: "kernel log",
    TracePoint.CALL: lambda fields: f"calls, processor {fields.get('cpu')}",
}


def order_of(event: TraceEvent) -> int:
    """Return the sort index of the event's track: queues precede commands."""
    return _ORDER.get(event.point, len(_ORDER))


_FIRST = (TracePoint.WQE, TracePoint.CQE, TracePoint.FAULT, TracePoint.EQE, TracePoint.IRQ)
_ORDER = {point: number for number, point in enumerate(dict.fromkeys((*_FIRST, *_TRACKS)))}


class Tracks:
    """Numbers the tracks in order of appearance."""

    def __init__(self) -> None:
        self.names: list[tuple[int, str]] = []
        """Function and name of each track."""
        self._numbers: dict[tuple[int, str], int] = {}

    def number(self, event: TraceEvent) -> int:
        """Return the number of the event's track, from 0 on; assign the next one to a new track.

        Beyond MAX_TRACKS, all events of new tracks share "other tracks" of function 0.
        """
        key = event.function, track_of(event)
        if key not in self._numbers:
            if len(self.names) >= MAX_TRACKS:
                key = 0, "other tracks"
            if key not in self._numbers:
                self._numbers[key] = len(self.names)
                self.names.append(key)
        return self._numbers[key]

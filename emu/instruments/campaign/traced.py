"""Cuts the trace of a run with a fault: what the driver made, and all events from the fault on."""

from __future__ import annotations

import json
from pathlib import Path

from emu.device.faults.record import RecordError, read
from emu.device.trace.event import TraceEvent, TracePoint
from emu.device.trace.stored import StoredTextError, TraceReader
from emu.instruments.campaign.description import MAX_TRACE

_NS_PER_S = 1_000_000_000


def fault_ns(record: str, loaded_ns: int) -> int:
    """Return the time of a record's first fault with an effect, on the clock of ``loaded_ns``.

    ``loaded_ns`` is the time of the plan's load, which the record's second line dates. Without a
    fault, as with links alone, return ``loaded_ns``. A trace has the same clock, CLOCK_MONOTONIC.
    """
    try:
        times = [one.seconds for one in read(record).fired if one.seconds is not None]
    except RecordError:
        return loaded_ns
    lines = record.splitlines()[1:2]
    loaded: float | None = json.loads(lines[0]).get("seconds") if lines else None
    if not times or loaded is None:
        return loaded_ns
    return loaded_ns + round((min(times) - loaded) * _NS_PER_S)


def since_fault(path: Path, begin_ns: int) -> str:
    """Return the lines of a trace from ``begin_ns`` on, and earlier ones that name queues.

    Earlier lines are resets, and commands but those of memory keys, of which a driver's cache has
    thousands; they take at most half of the text. At most :data:`description.MAX_TRACE` characters
    are returned. An absent trace is empty.
    """
    lines, size = [], 0
    try:
        with path.open("rb") as file:
            for line, event in TraceReader(file, lambda *_: None):
                is_old = event.t_ns < begin_ns
                if is_old and (not _names_queues(event) or size + len(line) > MAX_TRACE // 2):
                    continue
                size += len(line)
                if size > MAX_TRACE:
                    break
                lines.append(line)
    except (OSError, StoredTextError):
        return ""
    return "".join(lines)


def _names_queues(event: TraceEvent) -> bool:
    """Return whether an event is a reset, or a command about anything but memory keys."""
    if event.point == TracePoint.CMD:
        return not str(event.fields.get("op")).endswith("_MKEY")
    return event.point == TracePoint.RESET

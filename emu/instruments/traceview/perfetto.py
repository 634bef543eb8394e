"""Converts a trace to the JSON form of Perfetto (ui.perfetto.dev, ``trace_processor``).

A function is a process, a track a thread. Commands are slices. Page faults, which overlap, are
asynchronous slices. All other events are instants. Each has its fields as arguments. Format: the
Trace Event Format, with times in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from emu.device.trace.event import KERNEL, TraceEvent, TracePoint
from emu.instruments.traceview.tracks import Tracks, fields_of, name_of, order_of, owner, span

_KERNEL_PROCESS = 1 << 20
"""Process id above every function's; 0 is the idle task's."""


def export(events: Iterable[TraceEvent]) -> Iterator[str]:
    """Yield the file in chunks; memory does not grow with the number of events."""
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    tracks = Tracks()
    separator = ""
    for event in events:
        known = len(tracks.names)
        number = tracks.number(event)
        entries = [] if number < known else _naming(*tracks.names[number], number, event)
        for entry in (*entries, *_entries(event, number)):
            yield separator + json.dumps(entry, separators=(",", ":"))
            separator = ",\n"
    yield "\n]}\n"


def _naming(
    function: int, track: str, number: int, event: TraceEvent
) -> Iterator[dict[str, object]]:
    """Yield the metadata of a new track: process name (may repeat), thread name and order."""
    pid, tid = _process(function), number + 1
    yield _metadata("process_name", pid, 0, {"name": owner(function)})
    yield _metadata("thread_name", pid, tid, {"name": track})
    yield _metadata("thread_sort_index", pid, tid, {"sort_index": order_of(event)})


def _entries(event: TraceEvent, number: int) -> Iterator[dict[str, object]]:
    """Yield an event's entries: begin and end for a page fault, else one slice or instant."""
    pid, tid = _process(event.function), number + 1
    about = {"name": name_of(event), "cat": event.point, "pid": pid, "tid": tid}
    when = span(event)
    start, fields = when.start_ns / 1000, fields_of(event)
    if event.point == TracePoint.FAULT:
        about["id"] = f"{event.function}.{event.fields.get('token')}.{event.t_ns}"
        yield {"ph": "b", "ts": start, **about, "args": fields}
        yield {"ph": "e", "ts": event.t_ns / 1000, **about}
    elif event.point == TracePoint.CMD:
        yield {"ph": "X", "ts": start, "dur": when.duration_ns / 1000, **about, "args": fields}
    else:
        yield {"ph": "i", "s": "t", "ts": start, **about, "args": fields}


def _process(function: int) -> int:
    return _KERNEL_PROCESS if function == KERNEL else function + 1


def _metadata(name: str, pid: int, tid: int, values: dict[str, object]) -> dict[str, object]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": values}

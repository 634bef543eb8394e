"""Renders a trace as one self-contained HTML page: queues, time line, filters, all fields.

The page stores events in chunks of two compressed blocks: an index and the fields. The browser
reads the index at once and the fields on demand. A page of a million events therefore opens quickly
and is written in little memory. A block is raw deflate in base64.

The index has little-endian columns:

- start in microseconds since the trace began (double), duration (float)
- track number, name number (16 bits)
- number of the event's queue, and of the CQ or EQ that received it (16 bits; 0 is no queue)
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator
from importlib import resources

from emu.device.trace.event import TraceEvent
from emu.device.trace.text import FunctionNames
from emu.instruments.traceview.queues import TracedQueues, ordered
from emu.instruments.traceview.tracks import Tracks, fields_of, name_of, order_of, span

CHUNK = 4096
MAX_NAMES = 4096
"""Exceeds the number of event kinds; further names become "other"."""

_LEVEL = 6


def export(events: Iterable[TraceEvent]) -> Iterator[str]:
    """Yield the HTML page in chunks; memory does not grow with the number of events."""
    yield _asset("page.html")
    chunk = _Chunks()
    for event in events:
        chunk.add(event)
        if chunk.is_full:
            yield from chunk.take()
    yield from chunk.take()
    # "<" could end the script element.
    meta = json.dumps(chunk.meta(), separators=(",", ":")).replace("<", "\\u003c")
    yield f'<script type="application/json" id="meta">{meta}</script>\n'
    yield f"<script>\n{_asset('page.js')}</script>\n</html>\n"


def _asset(name: str) -> str:
    return resources.files("emu.instruments.traceview").joinpath(name).read_text(encoding="utf-8")


class _Chunks:
    """The current chunk, and the data common to all chunks."""

    def __init__(self) -> None:
        self._tracks = Tracks()
        self._queues = TracedQueues()
        self._functions = FunctionNames()
        self._orders: list[int] = []
        self._names: dict[tuple[str, str], int] = {}
        self._origin_ns: int | None = None
        self._count = 0
        self._clear()

    def _clear(self) -> None:
        self._times = array("d"), array("f")
        self._numbers = array("H"), array("H"), array("H"), array("H")
        self._fields: list[str] = []

    @property
    def is_full(self) -> bool:
        return len(self._fields) >= CHUNK

    def add(self, event: TraceEvent) -> None:
        """Add an event to the current chunk, and to the tracks, names and queues of the whole page.

        The first event's start is the time origin. The caller takes the chunk when ``is_full``.
        """
        when = span(event)
        if self._origin_ns is None:
            self._origin_ns = when.start_ns
        track = self._tracks.number(event)
        if track == len(self._orders):
            self._orders.append(order_of(event))
        starts, lasts = self._times
        tracks, names, abouts, getters = self._numbers
        starts.append((when.start_ns - self._origin_ns) / 1000)
        lasts.append(when.duration_ns / 1000)
        tracks.append(track)
        names.append(self._name(event))
        self._functions.learn(event)
        about, getter = self._queues.feed(event)
        abouts.append(about)
        getters.append(getter)
        self._fields.append(json.dumps(fields_of(event), separators=(",", ":")))
        self._count += 1

    def _name(self, event: TraceEvent) -> int:
        """Return the number of the event's point and name; above MAX_NAMES that of "other"."""
        key = event.point, name_of(event)
        if key not in self._names and len(self._names) >= MAX_NAMES:
            key = "other", "other"
        return self._names.setdefault(key, len(self._names))

    def take(self) -> Iterator[str]:
        """Yield index and fields of the current chunk as script elements, and start a new chunk.

        Yields nothing without events.
        """
        if not self._fields:
            return
        if sys.byteorder == "big":
            for column in (*self._times, *self._numbers):
                column.byteswap()
        index = b"".join(column.tobytes() for column in (*self._times, *self._numbers))
        yield f'<script type="x-index">{_packed(index)}</script>\n'
        fields = "\n".join(self._fields).encode()
        yield f'<script type="x-details">{_packed(fields)}</script>\n'
        self._clear()

    def meta(self) -> dict[str, object]:
        """Return the data common to all chunks: event count, tracks, names, functions, queues."""
        tracks = [
            (function, name, order)
            for (function, name), order in zip(self._tracks.names, self._orders)
        ]
        names = list(self._names)
        queues = [[place, *queue.row()] for place, queue in ordered(self._queues.all)]
        owners = {function for function, _ in self._tracks.names}
        owners |= {queue.function for queue in self._queues.all}
        functions = {str(one): self._functions.of(one) for one in sorted(owners)}
        return {
            **{"events": self._count, "chunk": CHUNK, "tracks": tracks, "names": names},
            **{"functions": functions, "queues": queues},
        }


def _packed(data: bytes) -> str:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(packer.compress(data) + packer.flush()).decode()

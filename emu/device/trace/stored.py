"""Reads a stored trace (JSON lines) and selects events from it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from emu.device.trace.event import TraceEvent, TracePoint

MAX_LINE_BYTES = 1 << 20
"""Limit of a line in bytes, far above the lines of a recorder."""

REFUSED = "refused"
"""Selects every status except OK."""

_NS_PER_S = 1_000_000_000
_TEXT_FORM = re.compile(r" *\d+\.\d{6} (?:\S+/)?f\d+ +[a-z]+ ")


class StoredTextError(Exception):
    """The trace is in text form, which has less data than the JSON form and cannot be read back."""


class ByteLines(Protocol):
    """The required subset of a binary file's interface."""

    def readline(self, size: int, /) -> bytes:
        """Return a line, or its first ``size`` bytes; empty at the end."""


class TraceReader:
    """Events of a stored trace, one by one; lines that are not events are skipped."""

    def __init__(self, stream: ByteLines, warn: Callable[[int, str], None]) -> None:
        """Read from ``stream``; ``warn`` gets the number of the first bad line (from 1), and its
        mistake.
        """
        self._stream = stream
        self._warn = warn
        self.broken = 0
        """Number of skipped lines so far."""
        self.events = 0
        """Number of lines with an event so far."""

    def __iter__(self) -> Iterator[tuple[str, TraceEvent]]:
        """Yield each line with its event.

        Raises StoredTextError when the first line is in text form.
        """
        for number, raw in enumerate(self._lines(), 1):
            try:
                line = raw.decode("ascii")
                if number == 1 and _TEXT_FORM.match(line):
                    raise StoredTextError
                event = TraceEvent.from_json(line)
            except ValueError as error:
                self._leave_out(number, raw, error)
            else:
                self.events += 1
                yield line, event

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines, with their end; of a line above MAX_LINE_BYTES only the beginning."""
        while line := self._stream.readline(MAX_LINE_BYTES):
            yield line
            while len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                line = self._stream.readline(MAX_LINE_BYTES)

    def _leave_out(self, number: int, raw: bytes, error: ValueError) -> None:
        """Count a line that is no event, and warn of the first one; later ones are only counted."""
        self.broken += 1
        if self.broken > 1:
            return
        if isinstance(error, UnicodeDecodeError):
            self._warn(number, "not ASCII")
        else:
            self._warn(number, str(error) if raw.endswith(b"\n") else "ends in the middle")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChoice:
    """Criteria that select events; an empty criterion matches everything.

    ``ops`` and ``status`` select commands and exclude everything else. ``status`` is the name of a
    status or a delivery status, or ``REFUSED``. Times are seconds since the start of the trace.
    """

    points: frozenset[str] = frozenset()
    ops: frozenset[str] = frozenset()
    status: str | None = None
    since: float | None = None
    until: float | None = None

    @property
    def is_possible(self) -> bool:
        """Whether the points, if any, include commands where a criterion selects commands."""
        return not (self.points and (self.ops or self.status)) or TracePoint.CMD in self.points

    def takes(self, event: TraceEvent, origin_ns: int) -> bool:
        """Return whether the event meets every criterion, in a trace that started at ``origin_ns``.

        ``since`` and ``until`` are inclusive.
        """
        if self.points and event.point not in self.points:
            return False
        if (self.ops or self.status) and not self._takes_command(event):
            return False
        passed_ns = event.t_ns - origin_ns
        if self.since is not None and passed_ns < self.since * _NS_PER_S:
            return False
        return self.until is None or passed_ns <= self.until * _NS_PER_S

    def _takes_command(self, event: TraceEvent) -> bool:
        """Return whether the event is a command that meets ``ops`` and ``status``."""
        if event.point != TracePoint.CMD:
            return False
        if self.ops and str(event.fields.get("op")) not in self.ops:
            return False
        if self.status == REFUSED:
            return event.is_refusal
        answer = event.fields.get("status"), event.fields.get("delivery")
        return self.status is None or self.status in answer


def kind_of(event: TraceEvent) -> tuple[str, str]:
    """Return the counting key of an event: its point, and its name there including any error.

    The name is empty for points without one. Both are safe to print.
    """
    words = [event.fields.get(_NAMES.get(event.point, ""), "")]
    if event.is_refusal:
        words.append(event.fields.get("status", "not delivered"))
    elif event.point == TracePoint.CQE:
        words.append(event.fields.get("syndrome", ""))
    return _printable(event.point), _printable(" ".join(filter(None, map(str, words))))


def _printable(text: str) -> str:
    return text if text.isascii() and text.isprintable() else json.dumps(text)


_NAMES: Mapping[str, str] = {
    TracePoint.CMD: "op",
    TracePoint.WQE: "op",
    TracePoint.CQE: "type",
    TracePoint.EQE: "type",
    TracePoint.MMIO: "register",
    TracePoint.RESET: "model",
    TracePoint.CALL: "name",
}
"""The field that names the kind of event."""

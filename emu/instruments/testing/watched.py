"""Observes a guest during one test: logs since the test and since its body began."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emu.device.trace.event import TraceEvent, TracePoint
from emu.device.trace.text import TextForm
from emu.host.counted import counted
from emu.host.printable import printable

if TYPE_CHECKING:
    from emu.guests import Guest
    from emu.instruments.outcome import Finding

MAX_LINES = 40
"""Lines of the log and of the trace in a short report."""
_SHORT_BYTES = 1 << 20
"""Bytes at the trace's end that are searched for these lines."""
_FULL_BYTES = 64 << 20
"""Bytes of the trace in a full report."""


@dataclass(frozen=True, slots=True)
class _Position:
    """Positions in a guest's logs at one time."""

    console: int = 0
    """Characters."""
    trace: int = 0
    """Bytes."""
    last: str = ""
    """The kernel's last line, or empty."""


class Watched:
    """A guest during one test, with log positions of the start of the test and of its body."""

    def __init__(self, guest: Guest, *, is_new: bool) -> None:
        """Record the test's start; the boot of a new guest belongs to the test."""
        self.guest = guest
        self._trace = guest.options.trace
        self._files = self._log_files()
        self._test = self._body = _Position(trace=self._trace_size()) if is_new else self._here()
        self.fired: list[str] = []

    def begin_body(self) -> None:
        """Record the start of the test's body, where a short report begins."""
        self._body = self._here()

    def _here(self) -> _Position:
        last = next(reversed(self._dmesg_lines()), "")
        return _Position(len(self._console()), self._trace_size(), last)

    def _trace_size(self) -> int:
        return self._trace.stat().st_size if self._trace is not None else 0

    def _log_files(self) -> Mapping[str, Path]:
        from emu.guests import GuestError

        try:
            return self.guest.log_files
        except GuestError:
            return {}

    def _dmesg_lines(self) -> list[str]:
        """Return the lines of the kernel's log; empty for a guest that is lost or stopped."""
        from emu.guests import GuestError

        try:
            return self.guest.dmesg().splitlines()
        except GuestError:
            return []

    def _console(self) -> str:
        """Return the console's output; empty for a guest that the test has stopped."""
        from emu.guests import GuestError

        try:
            return self.guest.console
        except GuestError:
            return ""

    def _log(self, since: _Position) -> list[str]:
        """Return the kernel's log since a position; from the console if the guest is lost.

        If the position's line has left the ring buffer, return the whole log.
        """
        lines = self._dmesg_lines()
        if not lines:
            return self._console()[since.console :].splitlines()
        # The log is a ring buffer: the last known line may be overwritten.
        known = len(lines) - lines[::-1].index(since.last) if since.last in lines else 0
        return lines[known:]

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings in the kernel's log since the test began.

        For a new guest they include the boot's.
        """
        from emu.instruments.outcome import findings

        return findings("\n".join(self._log(self._test)))

    def sections(self, *, is_full: bool) -> Iterator[tuple[str, str]]:
        """Yield the sections of a report, each a name and a text.

        A short report has :data:`MAX_LINES` lines of log and trace since the body began: the log's
        last, folded at the terminal's width, and of the trace failures before other events,
        truncated. A trace without failures is a line. A full report has all since the test began,
        and the console.
        """
        since = self._test if is_full else self._body
        yield "findings", "\n".join(f"{one.kind}: {one.title}" for one in self.findings())
        if is_full:
            yield "console", self._console()[since.console :]
        log, trace = self._log(since), self._traced(since, is_full)
        yield "dmesg", "\n".join(log if is_full else map(_folded, log[-MAX_LINES:]))
        yield "trace", "\n".join(trace if is_full else map(_cut, trace))
        yield "faults", "\n".join(self.fired)
        yield "files", "\n".join(f"{name}: {path}" for name, path in self._paths())

    def _paths(self) -> Iterator[tuple[str, Path]]:
        yield from self._files.items()
        if self._trace is not None:
            yield "trace (mlx5emu trace show)", self._trace

    def _traced(self, since: _Position, is_full: bool) -> list[str]:
        """Return the trace's lines as ``mlx5emu trace show`` prints them; empty without a trace.

        Only its last 1 MiB is read, or 64 MiB if ``is_full``. Without ``is_full`` at most
        :data:`MAX_LINES` are returned, and a line with the number of events if none failed.
        """
        if self._trace is None:
            return []
        form = TextForm()
        with self._trace.open("rb") as file:
            for event in _events(file.readline()):
                form(event)  # sets the origin of times
            size = file.seek(0, os.SEEK_END)
            begin = max(since.trace, size - (_FULL_BYTES if is_full else _SHORT_BYTES))
            file.seek(begin)
            if begin > since.trace:
                file.readline()  # skip a partial line
            events = [*_events(*file)]
        if not is_full and events and not any(map(_is_failure, events)):
            return [f"no failure in {counted(len(events), 'event')}; they are in the file below"]
        return [form(event) for event in (events if is_full else _chosen(events))]


def _chosen(events: Sequence[TraceEvent]) -> list[TraceEvent]:
    """Return the last :data:`MAX_LINES` events in order; failures go before other events."""
    by_rank = sorted(range(len(events)), key=lambda number: (_is_failure(events[number]), number))
    return [events[number] for number in sorted(by_rank[-MAX_LINES:])]


def _is_failure(event: TraceEvent) -> bool:
    """Return whether an event is a failed command, completion or page fault."""
    fields = event.fields
    is_error = fields.get("outcome") == "error" or fields.get("syndrome", "OK") != "OK"
    return event.is_refusal or (event.point in (TracePoint.CQE, TracePoint.FAULT) and is_error)


def _folded(line: str) -> str:
    """Return a line of a log as printed, folded at the terminal's width; without a terminal at 80.

    Its reason is at its end.
    """
    width = shutil.get_terminal_size().columns
    return "\n".join(textwrap.wrap(printable(line), max(width, 20), subsequent_indent="    "))


def _cut(line: str) -> str:
    """Return a line as printed, truncated at the terminal's width; without a terminal at 80."""
    shown, width = printable(line), shutil.get_terminal_size().columns
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def _events(*lines: bytes) -> Iterator[TraceEvent]:
    """Yield the events of stored lines; skip lines without an event."""
    for line in lines:
        try:
            yield TraceEvent.from_json(line.decode("ascii"))
        except ValueError:
            continue

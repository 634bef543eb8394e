"""Merges a guest's kernel log, and the calls that its ftrace records, into its functions' trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from emu.device.trace.event import TraceEvent
from emu.guests.errors import GuestError, LabError
from emu.guests.guest.guest import Guest
from emu.guests.timeline.clock import GuestClock
from emu.guests.timeline.kernel_log import call_events, log_events
from emu.guests.timeline.merge import merged
from emu.host.userfiles import replacing, why_not_replaceable, write_parts

_TIMEOUT = 120.0
_BUFFER_KIB = 16384
"""Buffer of each processor in KiB: some hundred thousand calls."""
_START = f"""
set -e
grep -q /sys/kernel/tracing /proc/mounts || mount -t tracefs tracefs /sys/kernel/tracing
cd /sys/kernel/tracing
echo 0 > tracing_on
echo global > trace_clock  # printk's
echo {_BUFFER_KIB} > buffer_size_kb
for functions; do echo "$functions" >> set_ftrace_filter; done
echo function > current_tracer
echo 1 > tracing_on
"""
_FINISH = "cd /sys/kernel/tracing; echo 0 > tracing_on; cat trace"
_COUNTS = re.compile(r"# entries-in-buffer/entries-written: (\d{1,12})/(\d{1,12})")


class KernelTrace:
    """The kernel's log and calls while a command runs; ``warn`` is called for missing data."""

    def __init__(self, functions: Sequence[str], warn: Callable[[str], None]) -> None:
        self._functions = functions
        self._warn = warn
        self._log: list[TraceEvent] = []
        self._calls: list[TraceEvent] = []

    def begin(self, guest: Guest) -> None:
        """Read the kernel's log, and start ftrace's function tracer for the functions, if any.

        Call it while the driver is loaded but not bound. Raises LabError if the kernel cannot trace
        a function.
        """
        guest.mark_clock()
        self._log = list(log_events(guest.dmesg()))
        if self._functions:
            started = guest.run(["sh", "-c", _START, "sh", *self._functions], timeout=_TIMEOUT)
            if started.status != 0:
                names = ", ".join(self._functions)
                raise LabError(f"the guest's kernel cannot trace {names}: {started.stderr.strip()}")

    def end(self, guest: Guest) -> None:
        """Stop tracing and collect the kernel's log and calls; raise no GuestError.

        The further log lines of a guest that has ended are read from its console; its calls are
        lost with a warning.
        """
        try:
            guest.mark_clock()
            self._log = list(log_events(guest.dmesg()))
            if self._functions:
                self._take_calls(guest.run(_FINISH, timeout=_TIMEOUT).check().stdout)
        except GuestError:
            last = self._log[-1].t_ns if self._log else 0
            self._log += [event for event in log_events(guest.console) if event.t_ns > last]
            if self._functions:
                self._warn("the guest has ended: its traced calls are lost")

    def write(self, trace: Path, device: Iterable[TraceEvent]) -> None:
        """Write the device's events and the kernel's, merged in order of time, to ``trace``.

        A file is replaced atomically; to a device or a pipe the events are written. Raises
        :class:`LabError` or OSError, and leaves the old file, on failure.
        """
        kernel = [*self._log, *self._calls]
        lines = _lines(merged(device, kernel, GuestClock.of_log(self._log)))
        if why_not_replaceable(trace):
            write_parts(trace, lines)
            return
        with replacing(trace) as part:
            write_parts(part, lines)

    def _take_calls(self, text: str) -> None:
        """Replace the calls by those in ftrace's ``text``; warn of calls that its buffer lost."""
        self._calls = list(call_events(text))
        counts = _COUNTS.search(text)
        lost = int(counts[2]) - int(counts[1]) if counts is not None else 0
        if lost:
            self._warn(f"the trace lacks the first {lost} calls: ftrace's buffer was too small")


def _lines(events: Iterable[TraceEvent]) -> Iterator[str]:
    return (f"{event.to_json()}\n" for event in events)

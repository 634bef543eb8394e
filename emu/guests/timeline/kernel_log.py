"""Reads two logs of a guest's kernel: dmesg, and ftrace's function tracer.

Both have times of the same clock (sched_clock), in seconds since about the boot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from emu.device.trace.event import KERNEL, TraceEvent, TracePoint

MAX_LINES = 2_000_000
_LONGEST = 1000
_STAMP = r"(\d{1,9})\.(\d{6})"
# "[   12.345678] text", with CONFIG_PRINTK_CALLER "[   12.345678][  T123] text".
_LINE = re.compile(rf"\[ *{_STAMP}\](?:\[ *[TC]\d+\])? ?(.*)")
# "     kworker/0:1-12      [000] d..1.    12.345678: mlx5_cmd_exec <-mlx5_core_create_cq"
_CALL = re.compile(rf" *(.{{1,32}})-(\d+) +\[(\d+)\] [^ ]+ +{_STAMP}: (\S+) <-(\S+)")


def log_events(text: str) -> Iterator[TraceEvent]:
    """Yield the lines of ``dmesg`` or of a console as events, ``t_ns`` by the kernel's clock.

    A line without a time belongs to the one before it; lines before the first time are left out.
    Lines are cut at 1000 characters, and the log after 2,000,000 lines.
    """
    t_ns: int | None = None
    for line in text.splitlines()[:MAX_LINES]:
        match = _LINE.fullmatch(line)
        if match is not None:
            t_ns, line = _ns(match[1], match[2]), match[3]
        if t_ns is not None:
            yield TraceEvent(t_ns, KERNEL, TracePoint.LOG, {"text": line[:_LONGEST]})


def call_events(text: str) -> Iterator[TraceEvent]:
    """Yield the calls in the output of ftrace's function tracer, ``t_ns`` by the kernel's clock.

    Lines that are no calls are skipped.
    """
    for line in text.splitlines()[:MAX_LINES]:
        if match := _CALL.fullmatch(line):
            task, pid, cpu, seconds, fraction, name, caller = match.groups()
            about = {"name": name, "caller": caller, "task": task.strip(), "pid": int(pid)}
            yield TraceEvent(
                _ns(seconds, fraction), KERNEL, TracePoint.CALL, {**about, "cpu": int(cpu)}
            )


def _ns(seconds: str, microseconds: str) -> int:
    return int(seconds) * 1_000_000_000 + int(microseconds) * 1000

"""Parses a kernel's log into reports and findings.

The formats are those of Linux 6.1 to 7.2: arch/x86/mm/fault.c, kernel/panic.c, mm/kasan/report.c,
lib/ubsan.c, kernel/locking/lockdep.c, kernel/hung_task.c, kernel/rcu/tree_stall.h, mm/kmemleak.c,
and mlx5_core's own messages. A guest controls its log, so lines, reports and findings are bounded,
and each expression matches one bounded line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from emu.instruments.outcome.finding import (
    UNKNOWN,
    Finding,
    new_finding,
    plain_function,
    plain_text,
)
from emu.instruments.outcome.headers import HEADERS, HUNG, LISTED, Header
from emu.instruments.outcome.stack import function_of, is_generic

MAX_FINDINGS = 64
_MAX_LINES = 400_000
_MAX_LINE_CHARS = 400
_REPORT_LINES = 120
_PREFIX = re.compile(r"^(?:<\d{1,3}>)?\[ *\d+\.\d+\](?:\[ *[CT]\d+\])? ?")
_OF_DRIVER = re.compile(
    r"(?:<(?P<level>\d{1,3})>)?(?:\[ *\d+\.\d+\])?(?:\[ *[CT]\d+\])? ?"
    r"(?P<text>(?:mlx5_\w+|infiniband) .*)"
)
_WARNING = 4
"""Level KERN_WARNING; less is more severe."""
_KASAN_ACCESS = re.compile(r"^(Read|Write|Free) of (?:size|addr)")
_LISTING = re.compile(r"sysrq: Show Blocked State\b")
_PID = re.compile(r"\bpid:(\d{1,10})\b")
_END = re.compile(r"---\[ end (?:trace|Kernel panic)")


def findings(log: str, *, with_listed: bool = True) -> tuple[Finding, ...]:
    """Return the findings in a kernel's log, each title once, in log order; at most 64.

    ``log`` is dmesg's output, raw or not, or a console's. Only its last 400,000 lines are read.
    Messages of the driver about errors count too (``Kind.DRIVER``). Tasks that SysRq-w lists count
    unless ``with_listed`` is False, or if a stack names only the scheduler's functions.
    """
    lines = [_plain(line) for line in log.splitlines()[-_MAX_LINES:]]
    by_title: dict[str, Finding] = {}
    for header, match, report in _reports(lines):
        one = _finding(header, match, report)
        if header.name == LISTED and (not with_listed or one.function == UNKNOWN):
            continue
        by_title.setdefault(one.title, one)
        if len(by_title) >= MAX_FINDINGS:
            break
    return tuple(by_title.values())


def still_blocked(first: str, second: str) -> tuple[Finding, ...]:
    """Return findings for the tasks that two listings of SysRq-w show in the same function.

    ``first`` and ``second`` are kernel logs whose last listing counts. A task in one of them only
    was about to continue.
    """
    before = _listed(first)
    by_title: dict[str, Finding] = {}
    for key, one in _listed(second).items():
        if key in before:
            by_title.setdefault(one.title, one)
    return tuple(by_title.values())[:MAX_FINDINGS]


def _listed(log: str) -> dict[tuple[str, str], Finding]:
    """Return the tasks of a log's last listing by process number and title."""
    listing = _LISTING.split(log)
    lines = [_plain(line) for line in listing[-1].splitlines()[:_MAX_LINES]]
    tasks = {}
    for header, match, report in _reports(lines if len(listing) > 1 else []):
        one = _finding(header, match, report)
        pid = _PID.search(report[0])
        if header.name == LISTED and one.function != UNKNOWN and pid is not None:
            tasks[pid[1], one.title] = one
    return tasks


def driver_lines(log: str) -> list[str]:
    """Return the lines of a log that the mlx5 drivers have logged as warnings or worse.

    ``log`` is that of ``dmesg --raw``, or a console's, whose lines have no level and all count.
    """
    lines = (_OF_DRIVER.match(line[:_MAX_LINE_CHARS]) for line in log.splitlines()[-_MAX_LINES:])
    return [
        found["text"]
        for found in lines
        if found and (found["level"] is None or int(found["level"]) % 8 <= _WARNING)
    ]


def _plain(line: str) -> str:
    """Return a line without level, time and caller, of bounded length."""
    return _PREFIX.sub("", line[:_MAX_LINE_CHARS]).rstrip()


def _headed(line: str) -> tuple[Header, re.Match[str]] | None:
    """Return the header that a line is, with its match; None for any other line."""
    for header in HEADERS:
        if match := header.pattern.search(line):
            return header, match
    return None


def _reports(lines: Sequence[str]) -> Iterator[tuple[Header, re.Match[str], Sequence[str]]]:
    """Yield the header, its match and the lines of each report."""
    number = 0
    while number < len(lines):
        headed = _headed(lines[number])
        if headed is None:
            number += 1
            continue
        header, match = headed
        end = _end_of(header, lines, number)
        yield header, match, lines[number:end]
        number = end


def _end_of(header: Header, lines: Sequence[str], start: int) -> int:
    """Return the line number after the report that begins at ``start``, at most 120 lines later.

    The report ends before another report's header, or after its end marker.
    """
    if not header.has_stack:
        return start + 1
    last = min(start + _REPORT_LINES, len(lines))
    own = last
    for number in range(start + 1, last):
        if (headed := _headed(lines[number])) is not None:
            if not header.continues(headed[0]):
                return min(own, number)
            own = last if own == last else number + 1
        elif own == last and _END.search(lines[number]):
            own = number + 1  # only a panic can follow in this report
    return own


def _finding(header: Header, match: re.Match[str], report: Sequence[str]) -> Finding:
    """Return the finding of a report; its function is the header's, RIP's or the stack's."""
    named = plain_function(match.groupdict().get("function") or "")
    function = named if named and not is_generic(named) else ""
    if not function and "{function}" in header.title:
        function = function_of(report, of_sleeper=header.title == HUNG)
    words = {key: plain_text(value or "") for key, value in match.groupdict().items()}
    access = next((matched[1] for line in report if (matched := _KASAN_ACCESS.match(line))), "")
    words |= {"function": function, "access": f" {access}" if access else ""}
    return new_finding(header.kind, header.title.format_map(words), function, report)

"""Finds the source location of a finding in the driver.

Findings of the library name it (examples/findings/findings.toml). For others it comes from the
kernel's report. A warning and a BUG name file and line. An oops names functions and offsets: a
build tree maps them to lines, plain sources only to the function's first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from emu.guests.kernel.stack_trace import StackTraceDecoder
from emu.instruments.outcome import Finding

_DRIVER: Final = ("drivers/net/ethernet/mellanox/mlx5", "drivers/infiniband/hw/mlx5")
_MAX_FILES: Final = 2000
_MAX_SOURCE: Final = 4 << 20
_PLACE = re.compile(r"`(drivers/[\w./-]+\.[ch])`, (\w+), line (\d+) in ([\d.]+)")
_LINE = re.compile(rf"\b((?:{'|'.join(_DRIVER)})/(?:[\w-]+/)*[\w-]+\.[ch]):(\d+)")
_FRAME = re.compile(r"(?<!\? )\b(mlx5\w*)(?:\.[\w.]+)?\+0x[0-9a-f]+/0x[0-9a-f]+")
_ANY_FRAME = re.compile(r"\b(\w+)(?:\.[\w.]+)?\+0x[0-9a-f]+/0x[0-9a-f]+")


@dataclass(frozen=True)
class SourceLine:
    """A line of the driver; the path is empty if only the function is known."""

    path: str
    function: str
    line: int
    release: str


def place_of(where: str) -> SourceLine | None:
    """Return the first location that a text of the library names."""
    match = _PLACE.search(where)
    return None if match is None else SourceLine(match[1], match[2], int(match[3]), match[4])


def decoded(log: str, tree: Path | None) -> str:
    """Return the log; if ``tree`` is a kernel's build, its frames get source lines.

    Return the log unchanged without ``tree`` or its vmlinux. Raises LabError for an unreadable
    build.
    """
    if tree is None or not (tree / "vmlinux").is_file():
        return log
    return StackTraceDecoder(tree).decode(log)


def place_in(bug: Finding, release: str, tree: Path | None) -> SourceLine | None:
    """Return the first location in the driver that the kernel's report names; None without one.

    A frame without a line gives the function's first line in ``tree``; without ``tree`` or
    function, path "" and line 0.
    """
    for line in bug.lines:
        if line.lstrip().startswith("? "):
            continue
        if (named := _LINE.search(line)) is not None:
            frame = _ANY_FRAME.search(line)
            function = frame[1] if frame is not None else bug.function
            return SourceLine(named[1], function, int(named[2]), release)
    frames = (_FRAME.search(line) for line in bug.lines)
    functions = [frame[1] for frame in frames if frame is not None]
    if not functions:
        return None
    path, line_number = _defined(tree, functions[0]) if tree is not None else ("", 0)
    return SourceLine(path, functions[0], line_number, release)


def _defined(tree: Path, function: str) -> tuple[str, int]:
    """Return file and line of a driver's function; empty and 0 if the sources lack it."""
    for file in islice(_sources(tree), _MAX_FILES):
        with file.open(errors="replace") as text:
            source = text.read(_MAX_SOURCE)
        if function in source and (found := definition(source.splitlines(), function)) is not None:
            return str(file.relative_to(tree)), found[0] + 1
    return "", 0


def definition(lines: Sequence[str], function: str) -> tuple[int, int, int] | None:
    """Return the lines of a function in a source, from 0; None if it is missing.

    The result has the first line of its head, the line of its opening brace, and its last line.
    Declarations are skipped.
    """
    head = re.compile(rf"[\w*][\w* ]*\b{re.escape(function)}\(|{re.escape(function)}\(")
    for begin in (at for at, line in enumerate(lines) if head.match(line)):
        # The head may have several lines; that of a declaration ends with a semicolon.
        at = begin
        while at < len(lines) and lines[at] != "{" and not lines[at].endswith(";"):
            at += 1
        if at < len(lines) and lines[at] == "{":
            end = next((n for n in range(at, len(lines)) if lines[n] == "}"), len(lines))
            return begin, at, end
    return None


def _sources(tree: Path) -> Iterable[Path]:
    for folder in _DRIVER:
        yield from sorted((tree / folder).rglob("*.c"))

"""Finds the source lines of a kernel's functions by matching their definitions.

A stock module has neither debug information nor file names in its symbol table. In the kernel's
coding style a definition begins in column 1 and its opening brace has its own line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from emu.host.user_error import UserError
from emu.instruments.coverage.data import CoveredFunction

_DEFINITION = re.compile(rb"^(?=[A-Za-z_])[^;{}()=#\n]*?\b(\w+)\((?:[^;{}]*)\)[^;{}()=]*\n\{", re.M)
_SUFFIX = re.compile(r"\..*")
"""Compiler's suffixes of a function's copies: ``.isra.0``, ``.constprop.0``, ``.cold``."""

_EVENT = re.compile(rb"^(?:TRACE_EVENT|DEFINE_EVENT)\(\s*(?:\w+\s*,\s*)?(\w+)\s*,\s*TP_PROTO", re.M)
"""Definition of a trace event in a header."""
_EVENTS_FUNCTION = re.compile(r"__(?:traceiter|probestub)_(\w+)")
_MAKES_EVENTS = b"#define CREATE_TRACE_POINTS"
"""Precedes the includes of headers whose events' functions this file defines."""
_INCLUDE = re.compile(rb'^#include "(?:[^"\n]*/)?([^"/\n]+)"', re.M)

_MAX_FILE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Location of a function's definition: the file, relative to the tree, and its line.

    The line is 0 if only the file is known: a macro defined the function.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def directory(self) -> str:
        """The file's directory."""
        return self.file.rpartition("/")[0]


class KernelTree:
    """A kernel's source tree."""

    def __init__(self, root: Path) -> None:
        """Take the tree's root. Raises UserError if it has no drivers/."""
        if not (root / "drivers").is_dir():
            raise UserError(f"{root} is not a kernel source tree: drivers/ is missing")
        self.root = root
        self._known: dict[str, Mapping[str, list[SourcePlace]]] = {}
        self._events: dict[str, Mapping[str, str]] = {}

    def places(
        self, directory: str, functions: Iterable[CoveredFunction]
    ) -> dict[CoveredFunction, SourcePlace]:
        """Return the source location of each function of the module in ``directory``.

        Every function has an entry: line 0 if only a guess of the file is known, file "" if none
        is. A name defined in several files, or by a macro, is assigned to the file of the preceding
        function: functions of a file are adjacent. Functions of a trace event belong to the file
        that defines CREATE_TRACE_POINTS.
        """
        if directory not in self._known:
            self._known[directory] = self._scan(directory)
            self._events[directory] = self._scan_events(directory)
        known, events = self._known[directory], self._events[directory]
        places: dict[CoveredFunction, SourcePlace] = {}
        file = ""
        for function in sorted(functions, key=lambda one: (one.offset is None, one.offset or 0)):
            name = _SUFFIX.sub("", function.name)
            candidates = known.get(name, [])
            event = _EVENTS_FUNCTION.fullmatch(name)
            if event and event[1] in events:
                file = events[event[1]]
            same = [one for one in candidates if one.file == file]
            place = (same or candidates or [SourcePlace(file, 0)])[0]
            places[function] = place
            if len(candidates) == 1 and place.file.endswith(".c"):
                file = place.file
        return places

    def _scan(self, directory: str) -> Mapping[str, list[SourcePlace]]:
        """Return the places of all definitions below a directory, by function name."""
        definitions: dict[str, list[SourcePlace]] = defaultdict(list)
        for name, text in self._files(directory):
            for match in _DEFINITION.finditer(text):
                line = text.count(b"\n", 0, match.start(1)) + 1
                definitions[match[1].decode()].append(SourcePlace(name, line))
        return definitions

    def _scan_events(self, directory: str) -> dict[str, str]:
        """Return by trace event the file that defines its functions.

        Omit events that no file makes.
        """
        headers: dict[str, list[str]] = {}
        makers: dict[str, str] = {}
        for name, text in self._files(directory):
            found = [match[1].decode() for match in _EVENT.finditer(text)]
            if found:
                headers[name.rpartition("/")[2]] = found
            _, makes, behind = text.partition(_MAKES_EVENTS)
            if makes:
                makers |= {match[1].decode(): name for match in _INCLUDE.finditer(behind)}
        return {
            event: makers[header]
            for header, events in headers.items()
            if header in makers
            for event in events
        }

    def _files(self, directory: str) -> Iterator[tuple[str, bytes]]:
        """Yield relative name and content of .c and .h files of up to 4 MiB below a directory."""
        for path in sorted((self.root / directory).rglob("*.[ch]")):
            if path.is_file() and path.stat().st_size <= _MAX_FILE_BYTES:
                yield path.relative_to(self.root).as_posix(), path.read_bytes()

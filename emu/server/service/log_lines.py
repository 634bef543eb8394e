"""Filters of the log: name the function that a line is about, and limit repeated lines.

A guest's doorbells, a peer's packets and a client's requests can each be wrong a hundred thousand
times a second, and each error is logged. Therefore only the first lines of a kind are written, then
a count of the others. The same source line logs all lines of a kind.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from emu.device.function.function import Function
from emu.device.objects.object import Object
from emu.device.objects.table import Table
from emu.device.ports import Clock
from emu.server.vfio.loop import Loop

MAX_LINES = 20
"""Maximum number of lines of a kind in an interval."""

INTERVAL_NS = 10_000_000_000
_NS_PER_S = 1_000_000_000
_DEVICE = ("emu.device", "firmware_cmds")
"""Prefixes of the loggers whose lines are about a function."""
_NAMED = "is_named"
"""Attribute of a record that has its function's name."""
_MAX_CHARACTERS = 500
"""Maximum length of the suppressed line that the summary quotes."""


class NamedLines(logging.Filter):
    """Begins each line of the device with the name of the function that the line is about.

    Numbers of objects repeat in each function. The first argument tells the function if it is an
    object in a table; otherwise the function is the one that the loop serves.
    """

    def __init__(self, loop: Loop, names: Mapping[Function, str]) -> None:
        super().__init__()
        self._loop = loop
        self._names = dict[object, str](names.items())
        self._functions = names.keys()

    def filter(self, record: logging.LogRecord) -> bool:
        """Insert the name, once for all handlers, if a function is known; return True."""
        if record.name.startswith(_DEVICE) and _NAMED not in record.__dict__:
            name = self._names.get(self._owner(record) or self._loop.served)
            if name is not None:
                record.msg, record.args = f"{name}: {record.getMessage()}", None
                record.__dict__[_NAMED] = True
        return True

    def _owner(self, record: logging.LogRecord) -> Function | None:
        """Return the function whose tables have the line's first argument; None for no such."""
        item = record.args[0] if record.args and isinstance(record.args, tuple) else None
        if not isinstance(item, Object):
            return None
        for function in self._functions:
            tables = cast("Mapping[type, Table[Object]]", function.hca.objects)
            for of in type(item).__mro__:
                table = tables.get(of)
                if table is not None and table.get(item.handle) is item:
                    return function
        return None


class _LineKind:
    """Lines of a source line in the current interval."""

    __slots__ = ("last", "left_out", "level", "lines", "since_ns")

    def __init__(self, now_ns: int) -> None:
        self.begin(now_ns)

    def begin(self, now_ns: int) -> None:
        """Start a new interval at ``now_ns``, with all counts zero."""
        self.since_ns = now_ns
        self.lines = self.left_out = 0
        self.level = logging.WARNING
        self.last = ""


class Repeats(logging.Filter):
    """The filter of a handler. Lines below WARNING were requested by the user and always pass."""

    def __init__(self, handler: logging.Handler, clock: Clock) -> None:
        super().__init__()
        self._handler = handler
        self._clock = clock
        self._kinds: dict[tuple[str, int], _LineKind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the line; False for a line that the later summary counts.

        True below WARNING, for summaries, and for the first MAX_LINES lines of a source line in 10
        s. The first suppressed line schedules the summary for the end of the interval.
        """
        if record.levelno < logging.WARNING or record.name == __name__:
            return True
        now = self._clock.now_ns()
        place = record.pathname, record.lineno
        kind = self._kinds.get(place)
        if kind is None:
            kind = self._kinds[place] = _LineKind(now)
        elif not kind.left_out and now - kind.since_ns >= INTERVAL_NS:
            kind.begin(now)
        kind.lines += 1
        if kind.lines <= MAX_LINES:
            return True
        if not kind.left_out:
            rest = kind.since_ns + INTERVAL_NS - now
            self._clock.call_later(rest, lambda: self._sum_up(kind))
        kind.left_out += 1
        kind.level = record.levelno
        # Keep only text: the arguments may keep device objects or views of guest memory alive.
        kind.last = record.getMessage()[:_MAX_CHARACTERS]
        return False

    def sum_up(self) -> None:
        """Log the summaries of all suppressed lines now, before the end of their intervals."""
        for kind in self._kinds.values():
            self._sum_up(kind)

    def _sum_up(self, kind: _LineKind) -> None:
        """Log the number of suppressed lines, and the last one; begin a new interval.

        Does nothing without suppressed lines. The level is that of the last one.
        """
        if not kind.left_out:
            return
        now = self._clock.now_ns()
        seconds = (now - kind.since_ns) / _NS_PER_S
        count, last, level = kind.left_out, kind.last, kind.level
        kind.begin(now)
        text = f"{count} more lines like this in {seconds:.0f} s, the last: {last}"
        record = logging.LogRecord(__name__, level, __file__, 0, text, None, None)
        self._handler.handle(record)


@contextmanager
def filtered(loop: Loop, names: Mapping[Function, str]) -> Iterator[None]:
    """Apply both filters to the root logger's present handlers while the body runs.

    ``names`` is empty to name no function. At the end removes the filters and logs the pending
    summaries.
    """
    naming = NamedLines(loop, names)
    filters = [(handler, Repeats(handler, loop)) for handler in logging.getLogger().handlers]
    for handler, repeats in filters:
        if names:
            handler.addFilter(naming)
        handler.addFilter(repeats)
    try:
        yield
    finally:
        for handler, repeats in filters:
            handler.removeFilter(naming)
            handler.removeFilter(repeats)
            repeats.sum_up()

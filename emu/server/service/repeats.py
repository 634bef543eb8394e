"""Limits repeated log lines: the first of a kind are written, then a count of the others.

A guest's doorbells, a peer's packets and a client's requests can each be wrong a hundred thousand
times a second, and each error is logged. This filter, which all lines pass, limits their number.
Lines are of the same kind if the same source line logged them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from emu.device.ports import Clock

MAX_LINES = 20
"""Lines of a kind that are written in one interval."""

INTERVAL_NS = 10_000_000_000
_NS_PER_S = 1_000_000_000
_MAX_CHARACTERS = 500
"""Length limit of the suppressed line that the summary quotes."""


class _LineKind:
    """What one source line has logged in the current interval."""

    __slots__ = ("last", "left_out", "level", "lines", "since_ns")

    def __init__(self, now_ns: int) -> None:
        self.begin(now_ns)

    def begin(self, now_ns: int) -> None:
        """Start a new interval."""
        self.since_ns = now_ns
        self.lines = self.left_out = 0
        self.level = logging.WARNING
        self.last = ""


class Repeats(logging.Filter):
    """The filter of one handler. Lines below WARNING were requested by the user and always pass."""

    def __init__(self, handler: logging.Handler, clock: Clock) -> None:
        super().__init__()
        self._handler = handler
        self._clock = clock
        self._kinds: dict[tuple[str, int], _LineKind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
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
        # As text: the arguments may keep device objects or views of guest memory alive.
        kind.last = record.getMessage()[:_MAX_CHARACTERS]
        return False

    def sum_up(self) -> None:
        """Log the pending summaries of all kinds now."""
        for kind in self._kinds.values():
            self._sum_up(kind)

    def _sum_up(self, kind: _LineKind) -> None:
        if not kind.left_out:
            return
        now = self._clock.now_ns()
        seconds = (now - kind.since_ns) / _NS_PER_S
        count, last, level = kind.left_out, kind.last, kind.level
        kind.begin(now)
        text = f"{count} more such lines in {seconds:.0f} s, the last: {last}"
        record = logging.LogRecord(__name__, level, __file__, 0, text, None, None)
        self._handler.handle(record)


@contextmanager
def summed_up(clock: Clock) -> Iterator[None]:
    """Limit repeated lines of all the root logger's handlers while in the context."""
    filters = [(handler, Repeats(handler, clock)) for handler in logging.getLogger().handlers]
    for handler, repeats in filters:
        handler.addFilter(repeats)
    try:
        yield
    finally:
        for handler, repeats in filters:
            handler.removeFilter(repeats)
            repeats.sum_up()

"""Log lines that repeat: the first of a kind are written, then how many more there were.

A guest rings a doorbell, a peer sends a packet, a client a request: each may be wrong a hundred
thousand times a second, and each is worth a line. What stands in a line is decided where it is
written; here, at the one place where all of them pass, is decided how many of them are. Lines are
of a kind when the same statement has written them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from emu.ports import Clock

MOST_LINES = 20
"""Lines of a kind in one interval."""

INTERVAL_NS = 10_000_000_000
_NS_PER_S = 1_000_000_000
_MOST_CHARACTERS = 500
"""Of the line that stands for those left out."""


class _Kind:
    """What one statement has written lately."""

    __slots__ = ("last", "left_out", "level", "lines", "since_ns")

    def __init__(self, now_ns: int) -> None:
        self.begin(now_ns)

    def begin(self, now_ns: int) -> None:
        """A new interval."""
        self.since_ns = now_ns
        self.lines = self.left_out = 0
        self.level = logging.WARNING
        self.last = ""


class Repeats(logging.Filter):
    """The filter of one handler. What is below a warning has been asked for, and passes."""

    def __init__(self, handler: logging.Handler, clock: Clock) -> None:
        super().__init__()
        self._handler = handler
        self._clock = clock
        self._kinds: dict[tuple[str, int], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        if record.levelno < logging.WARNING or record.name == __name__:
            return True
        now = self._clock.now_ns()
        place = record.pathname, record.lineno
        kind = self._kinds.get(place)
        if kind is None:
            kind = self._kinds[place] = _Kind(now)
        elif not kind.left_out and now - kind.since_ns >= INTERVAL_NS:
            kind.begin(now)
        kind.lines += 1
        if kind.lines <= MOST_LINES:
            return True
        if not kind.left_out:
            rest = kind.since_ns + INTERVAL_NS - now
            self._clock.call_later(rest, lambda: self._sum_up(kind))
        kind.left_out += 1
        kind.level = record.levelno
        # As text: its arguments may hold on to objects of the device, or to views of guest memory.
        kind.last = record.getMessage()[:_MOST_CHARACTERS]
        return False

    def sum_up(self) -> None:
        """Say now what has been left out, of every kind."""
        for kind in self._kinds.values():
            self._sum_up(kind)

    def _sum_up(self, kind: _Kind) -> None:
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
    """While inside, no handler of the root logger is flooded."""
    filters = [(handler, Repeats(handler, clock)) for handler in logging.getLogger().handlers]
    for handler, repeats in filters:
        handler.addFilter(repeats)
    try:
        yield
    finally:
        for handler, repeats in filters:
            handler.removeFilter(repeats)
            repeats.sum_up()

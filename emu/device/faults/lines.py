"""Delayed events that stay in order, such as the entries of a completion queue."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from emu.device.ports import Timer
from emu.device.rounds.sizes import LATE_PER_ROUND

log = logging.getLogger(__name__)

MAX_DELAYED = 10_000
"""Maximum number of delayed events; further ones are not delayed."""


class PlaceInLine:
    """An event in a line, which happens when it is due and none is before it."""

    __slots__ = ("call", "is_due")

    def __init__(self, call: Callable[[], object], *, is_due: bool) -> None:
        self.call = call
        self.is_due = is_due


class Lines:
    """Events that happen in order, such as a queue's: a delayed one delays all behind it."""

    def __init__(
        self,
        guarded: Callable[[Callable[[], object]], None],
        on_empty: Callable[[], None],
        next_round: Callable[[Callable[[], None]], Timer],
    ) -> None:
        """Make late calls by ``guarded``, and call ``on_empty`` after the last one of all.

        Of a long line the rest is left to ``next_round``.
        """
        self._guarded = guarded
        self._on_empty = on_empty
        self._next_round = next_round
        self._lines: dict[object, deque[PlaceInLine]] = {}
        self._rests: dict[object, Timer] = {}
        """Lines that go on in the next round."""
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def delay(self, line: object, call: Callable[[], object]) -> Callable[[], None]:
        """Put a call at the end of a line; return a function that reports it as due."""
        self._make_space(line)
        place = PlaceInLine(call, is_due=False)
        self._add(line, place)

        def due() -> None:
            place.is_due = True
            self._go_on(line)

        return due

    def follow(self, line: object, call: Callable[[], object]) -> bool:
        """Put a call behind the delayed ones of its line; return False if none is there."""
        self._make_space(line)
        if line not in self._lines:
            return False
        self._add(line, PlaceInLine(call, is_due=True))
        return True

    def clear(self) -> None:
        """Forget all calls."""
        for places in self._lines.values():
            places.clear()
        self._lines.clear()
        self._count = 0
        for timer in self._rests.values():
            timer.cancel()
        self._rests.clear()

    def _add(self, line: object, place: PlaceInLine) -> None:
        self._lines.setdefault(line, deque()).append(place)
        self._count += 1

    def _make_space(self, line: object) -> None:
        """Make the calls of a line early, in order, where MAX_DELAYED wait in all lines.

        The first ones are made now, the others in the next rounds.
        """
        if self._count < MAX_DELAYED or line not in self._lines:
            return
        log.warning("%d events wait in line: those of one line are not delayed", self._count)
        for place in self._lines[line]:
            place.is_due = True
        self._go_on(line)

    def _go_on(self, line: object) -> None:
        """Make the calls of a line up to the next delayed one, LATE_PER_ROUND in this round."""
        places = self._lines.get(line)
        for _ in range(LATE_PER_ROUND):
            if not places or not places[0].is_due:
                break
            self._count -= 1
            self._guarded(places.popleft().call)
        if places is None or self._lines.get(line) is not places:
            return
        if not places:
            del self._lines[line]
            if not self._lines:
                self._on_empty()
        elif places[0].is_due and line not in self._rests:
            self._rests[line] = self._next_round(partial(self._make_rest, line))

    def _make_rest(self, line: object) -> None:
        del self._rests[line]
        self._go_on(line)

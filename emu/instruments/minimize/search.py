"""The search for a smallest candidate that still shows something, for all that make one smaller.

What a candidate is, and in which steps it is made smaller, is a strategy: :func:`faults` is the one
for faults that have fired in a run; the fuzzer has one for what it makes up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from emu.device.faults.record import FaultRecord
from emu.instruments.minimize.ddmin import ddmin

T = TypeVar("T")

One = tuple[int, str, int]
"""Function, rule and the number of the event."""

Shows = Callable[[T], bool]
"""Whether a candidate shows it."""


class _EnoughError(Exception):
    """The trials that a search may take are used up."""


class Search(Generic[T]):
    """Trials, each made once, at most so many; what was smallest by then is the result."""

    def __init__(
        self, shows: Shows[T], key: Callable[[T], Hashable], limit: int | None = None
    ) -> None:
        """``shows`` makes a trial; candidates with equal keys are the same one."""
        self._shows = shows
        self._key = key
        self._limit = limit
        self._known: dict[Hashable, bool] = {}
        self.best: T | None = None
        """The smallest candidate so far that shows it."""
        self.is_cut = False
        """Whether trials that would have come were one too many."""

    def run(self, strategy: Callable[[Shows[T]], object]) -> T | None:
        """The last candidate that a strategy has tried with success; None when there was none.

        A strategy tries parts of what has shown it alone, so the last one is the smallest.
        """
        try:
            strategy(self._try)
        except _EnoughError:
            self.is_cut = True
        return self.best

    def _try(self, candidate: T) -> bool:
        key = self._key(candidate)
        if key not in self._known:
            if len(self._known) == self._limit:
                raise _EnoughError
            self._known[key] = self._shows(candidate)
            if self._known[key]:
                self.best = candidate
        return self._known[key]


def minimize_faults(recorded: FaultRecord, shows: Shows[list[One]]) -> None:
    """The strategy for a run's faults: rules are left out, then the single times that others fired.

    Nothing is tried when none has fired, and nothing else when all of them do not show it.
    """
    everything = [(one.function, one.rule, one.n) for one in recorded.fired]
    if not everything or not shows(everything):
        return
    rules = list(dict.fromkeys((function, rule) for function, rule, _ in everything))
    needed = ddmin(rules, lambda some: shows([one for one in everything if one[:2] in some]))
    ddmin([one for one in everything if one[:2] in needed], shows)

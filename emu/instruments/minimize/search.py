"""Searches for a minimal candidate that still shows a failure, with a limit on trials.

A strategy defines candidates and the steps that minimize them. :func:`minimize_faults` is the
strategy for faults that fired in a run. The fuzzer has its own
(:mod:`emu.instruments.fuzz.minimize`).
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
"""Returns whether a candidate shows the failure."""


class _EnoughError(Exception):
    """The search has used its limit of trials."""


class Search(Generic[T]):
    """Makes each trial once, at most ``limit`` of them, and keeps the smallest candidate that
    fails.
    """

    def __init__(
        self, shows: Shows[T], key: Callable[[T], Hashable], limit: int | None = None
    ) -> None:
        """Take ``shows``, which makes a trial, and ``key``, equal for equal candidates."""
        self._shows = shows
        self._key = key
        self._limit = limit
        self._known: dict[Hashable, bool] = {}
        self.best: T | None = None
        """The smallest candidate so far that shows the failure; None before the first."""
        self.is_cut = False
        """Whether the limit ended the search."""

    def run(self, strategy: Callable[[Shows[T]], object]) -> T | None:
        """Run the strategy; return the last candidate that showed the failure, None if none did.

        A strategy tries only subsets of candidates that failed, so the last one is the smallest. At
        the limit of trials the strategy is interrupted, and :attr:`is_cut` is set.
        """
        try:
            strategy(self._try)
        except _EnoughError:
            self.is_cut = True
        return self.best

    def _try(self, candidate: T) -> bool:
        """Return whether a candidate shows the failure, by a trial or an equal candidate's answer.

        Raises _EnoughError instead of a trial beyond the limit.
        """
        key = self._key(candidate)
        if key not in self._known:
            if len(self._known) == self._limit:
                raise _EnoughError
            self._known[key] = self._shows(candidate)
            if self._known[key]:
                self.best = candidate
        return self._known[key]


def minimize_faults(recorded: FaultRecord, shows: Shows[list[One]]) -> None:
    """Try subsets of a run's faults by ``shows``: fewer rules, then fewer firings of the others.

    The search behind ``shows`` keeps the result. Stop without a trial if no fault fired, and after
    one trial if all faults together do not show the failure.
    """
    everything = [(one.function, one.rule, one.n) for one in recorded.fired]
    if not everything or not shows(everything):
        return
    rules = list(dict.fromkeys((function, rule) for function, rule, _ in everything))
    needed = ddmin(rules, lambda some: shows([one for one in everything if one[:2] in some]))
    ddmin([one for one in everything if one[:2] in needed], shows)

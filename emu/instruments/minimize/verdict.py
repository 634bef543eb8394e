"""Verdicts about trials whose command may also fail by chance, as on a busy machine.

A guest that boots too slowly, or a command that a busy machine has made too late, says nothing
about the faults of its trial. So a failure counts when it has come twice in the same way, and only
as the one that is searched for if all faults together have brought about that same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from emu.instruments.minimize.search import One

MAX_RUNS: Final = 3
"""Of one trial, until two of them agree."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run of a trial has ended."""

    kind: str
    """How it has failed, such as the command's status; empty when it has succeeded."""
    fired: int
    """How many of the trial's faults have come up again."""


class Verdicts:
    """Judges trials; the first one has all faults and says which failure is searched for."""

    def __init__(self, run: Callable[[list[One]], Outcome]) -> None:
        """``run`` carries a trial out, each time in a fresh guest."""
        self._run = run
        self._wanted = ""

    def shows(self, faults: list[One]) -> bool:
        """Return whether these faults bring the failure about.

        One success says that they do not if all of them have fired in it.
        """
        seen: Counter[str] = Counter()
        for _ in range(MAX_RUNS):
            outcome = self._run(faults)
            if not outcome.kind and outcome.fired >= len(faults):
                return False
            seen[outcome.kind] += 1
            if seen[outcome.kind] > 1:
                self._wanted = self._wanted or outcome.kind
                return bool(outcome.kind) and outcome.kind == self._wanted
        return False

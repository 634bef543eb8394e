"""Judges trials whose command may also fail by chance, for example on a busy machine.

A guest that boots too slowly says nothing about the faults of its trial. A failure therefore counts
when two runs fail in the same manner. The wanted failure is the one that all faults together cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from emu.instruments.minimize.search import One

MAX_RUNS: Final = 3
"""Limit of runs per trial; two equal results end it earlier."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of one run of a trial."""

    kind: str
    """Kind of failure, such as the command's status; empty after success."""
    fired: int
    """Number of the trial's faults that fired again."""


class Verdicts:
    """Judges trials; the first trial has all faults and defines the wanted failure."""

    def __init__(self, run: Callable[[list[One]], TrialResult]) -> None:
        """Take ``run``, which carries a trial out in a fresh guest at each call."""
        self._run = run
        self._wanted = ""

    def shows(self, faults: list[One]) -> bool:
        """Return whether these faults cause the wanted failure, which the first call defines.

        Up to :data:`MAX_RUNS` runs are made until two end in the same manner; otherwise return
        False. One success is enough for False if all faults fired in it.
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

"""A smallest part of the faults that have fired in a run and still bring its failure about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.device.faults.ddmin import ddmin
from emu.device.faults.record import Record

One = tuple[int, str, int]
"""Function, rule and the number of the event."""


def smallest(told: Record, fails: Callable[[Sequence[One]], bool]) -> list[One] | None:
    """Rules are left out first, then the single times that the others fired.

    ``fails`` tries some of the faults; None when not even all of them make it fail.
    """
    everything = [(one.function, one.rule, one.n) for one in told.fired]
    if not everything or not fails(everything):
        return None
    rules = list(dict.fromkeys((function, rule) for function, rule, _ in everything))
    kept = ddmin(rules, lambda some: fails([one for one in everything if one[:2] in some]))
    return ddmin([one for one in everything if one[:2] in kept], fails)

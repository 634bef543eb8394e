"""Objects of the device that have come and not gone: counts by kind, turn by turn.

The device knows every object that its driver has made. What a driver keeps for later differs from
a leak by coming once, not in every turn of the same work: its first turn only warms caches up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

from emu.instruments.outcome.finding import Finding, Kind, made

MIN_TURNS = 2
"""Turns after the first one: what grows in each of them is a leak."""
_STEADY = 3
_INTERVAL = 0.1
_MAX_SAMPLES = 100

Counts = Mapping[str, int]
"""Objects by kind, of all functions together."""


class Census(Protocol):
    """What tells the counts: :class:`emu.server.control.Client`."""

    def census(self) -> dict[str, int]:
        """The objects in use, by kind."""


def settled(control: Census, wait: Callable[[float], None] = time.sleep) -> dict[str, int]:
    """The counts when they no longer change: a kernel frees some of its objects later."""
    last, same = control.census(), 1
    for _ in range(_MAX_SAMPLES):
        wait(_INTERVAL)
        now = control.census()
        same = same + 1 if now == last else 1
        last = now
        if same >= _STEADY:
            break
    return last


def left(counts: Sequence[Counts]) -> tuple[Finding, ...]:
    """The kinds of which every turn has left some; ``counts`` are those after each turn.

    The first are those after the turn that has warmed the driver's caches up.
    """
    result = []
    for kind in sorted({kind for one in counts for kind in one}):
        numbers = [one.get(kind, 0) for one in counts]
        if len(numbers) > 1 and all(before < after for before, after in pairwise(numbers)):
            turns, more = len(numbers) - 1, numbers[-1] - numbers[0]
            line = f"{kind}: {more} more in {turns} turns ({', '.join(map(str, numbers))})"
            result.append(made(Kind.LEAK, f"objects left in the device: {kind}", "", [line]))
    return tuple(result)

"""Finds leaked device objects: counts by kind that grow with every repetition of a work.

The device knows all objects of its driver. An object that the driver caches appears once, in the
first run. A leak grows in every repetition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

from emu.instruments.outcome.finding import Finding, Kind, new_finding

MIN_REPETITIONS = 2
"""Number of repetitions after the first run that show a leak, if the count grows in each."""
_STEADY = 3
_INTERVAL = 0.1
_MAX_SAMPLES = 100

Counts = Mapping[str, int]
"""Number of objects by kind, over all functions."""


class Census(Protocol):
    """Source of the counts: :class:`emu.server.control.Client`."""

    def census(self) -> dict[str, int]:
        """Return the number of objects in use, by kind."""


def settled(control: Census, wait: Callable[[float], None] = time.sleep) -> dict[str, int]:
    """Return the counts once 3 samples 0.1 s apart are equal, or the last of 100 samples.

    A kernel frees some objects later.
    """
    last, same = control.census(), 1
    for _ in range(_MAX_SAMPLES):
        wait(_INTERVAL)
        now = control.census()
        same = same + 1 if now == last else 1
        last = now
        if same >= _STEADY:
            break
    return last


def growing_kinds(counts: Sequence[Counts]) -> tuple[Finding, ...]:
    """Return a finding for each kind of objects that grew in every repetition; empty without any.

    ``counts`` are the counts after the first run, which filled the driver's caches, and after each
    repetition. One sample shows no growth.
    """
    result = []
    for kind in sorted({kind for one in counts for kind in one}):
        numbers = [one.get(kind, 0) for one in counts]
        if len(numbers) > 1 and all(before < after for before, after in pairwise(numbers)):
            count, more = len(numbers) - 1, numbers[-1] - numbers[0]
            line = f"{kind}: {more} more in {count} repetitions ({', '.join(map(str, numbers))})"
            result.append(new_finding(Kind.LEAK, f"objects left in the device: {kind}", "", [line]))
    return tuple(result)

"""Delta debugging: minimizes a list that shows a failure.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), algorithm ddmin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return a sublist that fails and that passes without any one of its items.

    ``fails`` gets sublists in their original order, each at most once. The whole list must fail;
    that is not tried. Return an empty list if the empty list fails.
    """
    asked: dict[tuple[int, ...], bool] = {}

    def ask(chosen: list[int]) -> bool:
        key = tuple(chosen)
        if key not in asked:
            asked[key] = fails([items[at] for at in chosen])
        return asked[key]

    current, parts = list(range(len(items))), 2
    if not current or ask([]):
        return []
    while len(current) > 1:
        chunks = _chunks(current, parts)
        smaller = next((chunk for chunk in chunks if ask(chunk)), None)
        if smaller is not None:
            current, parts = smaller, 2
            continue
        for chunk in chunks if parts > 2 else ():
            rest = [at for at in current if at not in set(chunk)]
            if ask(rest):
                smaller = rest
                break
        if smaller is not None:
            current, parts = smaller, max(parts - 1, 2)
        elif parts >= len(current):
            break
        else:
            parts = min(2 * parts, len(current))
    return [items[at] for at in current]


def _chunks(items: list[int], parts: int) -> list[list[int]]:
    """Return ``items`` split into ``parts`` chunks of nearly equal length, at most one per item."""
    parts = min(parts, len(items))
    edges = [len(items) * part // parts for part in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(edges)]

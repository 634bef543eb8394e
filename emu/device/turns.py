"""Work that is done in turns, so that no round of the loop takes long.

A function that may have much to do is a generator: it yields after its share of a round, and its
return value is the result. The caller calls ``next`` once per round; short work ends at the first
call. Anything may have changed between two turns.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Turns = Generator[None, None, T]


def finish(work: Turns[T]) -> T:
    """Run all turns at once, for work that is known to be short."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result

"""Work that is done in turns, so that no round of the loop takes long.

A function that may have much to do is a generator: it yields when it has done its share of a round,
and its return value is the result. Whoever drives it calls ``next`` once a round; what is short
ends at the first call. Between two turns anything may have changed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Turns = Generator[None, None, T]


def finish(work: Turns[T]) -> T:
    """All turns at once, for work that is known to be short."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result

"""Long work cut into steps, so that no round of the loop takes long.

A function with long work is a generator: it yields after each step, and its return value is the
result. Its owner calls ``next`` once in each round; short work ends at the first call. Any state
may have changed between two steps. Step sizes are in ``sizes.py``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Portions = Generator[None, None, T]


def goes_on(work: Portions[None]) -> bool:
    """Run one step of ``work``; return whether another one is left, False when ``work`` has ended.

    Exceptions of ``work`` propagate.
    """
    return next(work, False) is None


def finish(work: Portions[T]) -> T:
    """Run all steps of ``work`` at once, regardless of the budget, and return its result.

    Only for work that is known to be short.
    """
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result

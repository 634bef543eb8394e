"""Work cut into portions, so that no round of the loop takes long.

A function that may have much to do is a generator: it yields after a portion, and its return value
is the result. Who runs it gives it a turn in each round, that is ``next`` once; short work ends at
the first call. Anything may have changed between two portions. How much one of them holds is in
``sizes.py``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Portions = Generator[None, None, T]


def goes_on(work: Portions[None]) -> bool:
    """Do a portion of some work; True when there is another one."""
    try:
        next(work)
    except StopIteration:
        return False
    return True


def finish(work: Portions[T]) -> T:
    """Do all portions at once, for work that is known to be short."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result

"""The functions of a run that an entry of a plan applies to: one index, several, or all
(default).
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

MAX_FUNCTIONS: Final = 16
"""Maximum number of functions of one run that entries of a plan can name."""

FunctionIndex = Annotated[int, Field(strict=True, ge=0, lt=MAX_FUNCTIONS)]
Functions = (
    FunctionIndex
    | Annotated[list[FunctionIndex], Field(min_length=1, max_length=MAX_FUNCTIONS)]
    | None
)
"""The value of ``function`` in a plan; None stands for all functions."""


def listed(functions: int | list[int] | None) -> list[int] | None:
    """Return the indices as a list; None for all functions."""
    return [functions] if isinstance(functions, int) else functions


def includes(functions: int | list[int] | None, index: int) -> bool:
    """Return whether an entry for ``functions`` applies to the function with this index."""
    indices = listed(functions)
    return indices is None or index in indices


def restricted(functions: int | list[int] | None, allowed: list[int]) -> list[int]:
    """Return the indices of ``functions``, or all of ``allowed`` for None.

    Raises ValueError for an index that is not allowed, as a function of another guest.
    """
    indices = listed(functions)
    if indices is None:
        return allowed
    if others := [index for index in indices if index not in allowed]:
        raise ValueError(f"function {others[0]} is another guest's; choose of {allowed}")
    return indices

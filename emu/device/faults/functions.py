"""The functions of a run that an entry of a plan applies to: one, several, or all (default).

A function has an index. A virtual function (VF) has a name as well: ``0.vf2`` is ``vf 2`` of the
function with index 0, and Linux's ``virtfn2``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pydantic import Field

from emu.model_words import matching

MAX_FUNCTIONS: Final = 512
"""Maximum number of functions of one run that entries of a plan can name: 16 with 31 VFs each."""

FunctionIndex = Annotated[int, Field(strict=True, ge=0, lt=MAX_FUNCTIONS)]
VfName = Annotated[
    str,
    Field(strict=True),
    matching(r"[0-9]{1,3}\.vf[0-9]{1,2}", "an index, or the name of a VF such as 0.vf1,"),
]
Functions = (
    FunctionIndex
    | VfName
    | Annotated[list[FunctionIndex | VfName], Field(min_length=1, max_length=MAX_FUNCTIONS)]
    | None
)
"""The value of ``function`` in a plan; None stands for all functions."""


def numbered(functions: Functions, names: Mapping[str, int]) -> int | list[int] | None:
    """Return the functions by their indices; ``names`` has those of VFs by name.

    Raises ValueError for the name of a VF that the run does not have.
    """
    if isinstance(functions, list):
        return [_index(one, names) for one in functions]
    return None if functions is None else _index(functions, names)


def _index(function: int | str, names: Mapping[str, int]) -> int:
    if isinstance(function, int):
        return function
    if function not in names:
        known = ", ".join(names) or "none"
        raise ValueError(f"no virtual function {function}; virtual functions: {known}")
    return names[function]


def listed(functions: int | str | Sequence[int | str] | None) -> list[int] | None:
    """Return the indices as a list, without names (:func:`numbered`); None for all functions."""
    if functions is None:
        return None
    chosen = [functions] if isinstance(functions, int | str) else functions
    return [one for one in chosen if isinstance(one, int)]


def includes(functions: Functions, index: int) -> bool:
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

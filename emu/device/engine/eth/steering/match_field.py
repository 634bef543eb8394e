"""What a field of a packet is to flow groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, TypeVar

from emu.device.port.eth.headers import Headers

Read = Callable[[Headers], int | None]
Part = Callable[[Headers], Hashable]


class MatchField(NamedTuple):
    """How a field is read, and which bytes of a packet determine it."""

    read: Read
    part: Part | None = None
    """None: it is determined by what is always part of a decision's key (``fields.base``)."""


_Of = TypeVar("_Of", bound=Callable[[Headers], object])

COSTS: Final[dict[Callable[[Headers], object], int]] = {}
"""Costs of functions that look at much of a packet; all others cost 1."""


def costs(fields: int, function: _Of) -> _Of:
    """Note that a function which reads a packet takes as long as reading so many outer fields.

    It is one of a set that no guest makes longer: each is remembered for good.
    """
    COSTS[function] = fields
    return function


def cost_of(function: Callable[[Headers], object]) -> int:
    """How many outer fields could be read in the time that a function takes."""
    return COSTS.get(function, 1)

"""A packet field as flow groups use it: its reader, and its part of the cache key."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, TypeVar

from emu.device.port.eth.headers import Headers

Read = Callable[[Headers], int | None]
Part = Callable[[Headers], Hashable]


class MatchField(NamedTuple):
    """A field's reader, and the key part that decides its value."""

    read: Read
    part: Part | None = None
    """None: ``fields.base``, part of every key, decides the value."""


_Of = TypeVar("_Of", bound=Callable[[Headers], object])

COSTS: Final[dict[Callable[[Headers], object], int]] = {}
"""Costs of functions that read much of a packet, in outer fields; all others cost 1."""


def costs(fields: int, function: _Of) -> _Of:
    """Record the cost of a function that reads a packet, in outer fields.

    The function is kept forever, so guests must not be able to create more of them.
    """
    COSTS[function] = fields
    return function


def cost_of(function: Callable[[Headers], object]) -> int:
    """Return the cost of a function that reads a packet, in outer fields."""
    return COSTS.get(function, 1)

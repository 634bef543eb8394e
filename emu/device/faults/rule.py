"""One rule of a plan: the events of a point that it matches, and the selection of those that fail.

The keys that select events have the names of the kernel's Documentation/fault-injection. Two are
specific to mlx5emu: ``match``, values of the event's fields, and ``index``, numbers of matching
events. ``action`` names the action; :mod:`emu.device.faults.plan` adds the parameters that actions
declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

from emu.device.faults.functions import Functions, includes
from emu.model_words import matching

MAX_NAME_CHARS = 80
_U64 = (1 << 64) - 1

Value = bool | int | str
"""A value of a field: a number, an enumeration's name, or bytes as hexadecimal digits."""


def _flat(table: object) -> Any:
    """Return ``{"a": {"b": 1}}`` as ``{"a.b": 1}``: TOML's dotted keys are parsed to tables."""
    return dict(_leaves(table, "")) if isinstance(table, Mapping) else table


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values of nested tables."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _listed(value: object) -> Any:
    return value if isinstance(value, list) else [value]


_PLAIN = matching(r"[^\s\x00-\x1f]*", "a name without spaces")
Count = Annotated[int, Field(strict=True, ge=1, le=_U64)]
Match = Annotated[dict[str, Value | list[Value]], BeforeValidator(_flat)]
Assignments = Annotated[dict[str, Value], BeforeValidator(_flat), Field(min_length=1)]


class Rule(BaseModel):
    """A rule: the action at a point, and the events that it applies to.

    The n-th event that matches ``match`` fires the rule when n is above ``space``, ``n - space`` a
    multiple of ``interval``, n is in ``index`` (if given), the random number of (seed, name, n) is
    below ``probability``, and the rule has fired fewer than ``times`` times.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[StrictStr, Field(max_length=MAX_NAME_CHARS), _PLAIN] = ""
    point: str
    action: str
    match: Match = Field(default_factory=dict)
    function: Functions = None
    """Index in the run of the function to apply to, ``0.vf2`` for a virtual one, or a list of them;
    all functions by default."""
    index: Annotated[list[Count], BeforeValidator(_listed)] | None = None
    probability: Annotated[float, Field(ge=0, le=100)] = 100.0
    """Probability in percent."""
    interval: Count = 1
    times: Annotated[int, Field(strict=True, ge=-1, le=_U64)] = -1
    """Maximum number of firings; -1 for no limit."""
    space: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    """Number of matching events before the first that can fail."""
    after: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    """Number of commands of the function after which the rule is armed."""
    until: Annotated[int, Field(strict=True, ge=0, le=_U64)] | None = None
    """Number of commands of the function after which the rule is removed."""

    def applies_to(self, function: int) -> bool:
        """Return whether the rule applies to the function with this index."""
        return includes(self.function, function)

    def __getitem__(self, parameter: str) -> Any:
        """Return a parameter of the action; None when the rule does not give it."""
        return getattr(self, parameter)

    def to_table(self) -> dict[str, Any]:
        """Return the rule as in a plan, the name first, without keys that have their defaults."""
        table = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return {"name": table.pop("name", ""), **table} if self.name else table

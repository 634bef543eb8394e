"""One rule of a plan: which events of a point it is about, and which of those fail.

The keys that decide when it fires have the names of the kernel's Documentation/fault-injection.
Two are ours: ``match``, values of the event's fields, and ``index``, numbers of matching events.
``action`` names what happens; :mod:`emu.device.faults.plan` adds the parameters that actions
declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

from emu.device.faults.functions import Functions, includes

_U64 = (1 << 64) - 1

Value = bool | int | str
"""A value of a field: a number, an enumeration's name, or bytes as hexadecimal digits."""


def _flat(table: object) -> Any:
    """``{"a": {"b": 1}}`` as ``{"a.b": 1}``: TOML's dotted keys come as tables."""
    return dict(_leaves(table, "")) if isinstance(table, Mapping) else table


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _listed(value: object) -> Any:
    return value if isinstance(value, list) else [value]


Count = Annotated[int, Field(strict=True, ge=1, le=_U64)]
Match = Annotated[dict[str, Value | list[Value]], BeforeValidator(_flat)]
Assignments = Annotated[dict[str, Value], BeforeValidator(_flat), Field(min_length=1)]


class Rule(BaseModel):
    """What happens at a point, and to which of its events.

    The n-th event that matches ``match`` fires the rule when n is above ``space``, ``n - space`` a
    multiple of ``interval``, n is in ``index`` (if given), the random number of (seed, name, n) is
    below ``probability``, and the rule has fired fewer than ``times`` times.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[StrictStr, Field(max_length=80, pattern=r"^[^\s\x00-\x1f]*$")] = ""
    point: str
    action: str
    match: Match = Field(default_factory=dict)
    function: Functions = None
    """Index in the run of the function to apply to, or a list of them; all functions by default."""
    index: Annotated[list[Count], BeforeValidator(_listed)] | None = None
    probability: Annotated[float, Field(ge=0, le=100)] = 100.0
    """In percent."""
    interval: Count = 1
    times: Annotated[int, Field(strict=True, ge=-1, le=_U64)] = -1
    """How often it fires at most; -1 for no limit."""
    space: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    """How many matching events pass before one can fail."""
    after: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    """The rule is armed after the function has run this many commands."""
    until: Annotated[int, Field(strict=True, ge=0, le=_U64)] | None = None
    """The rule is removed after the function has run this many commands."""

    def applies_to(self, function: int) -> bool:
        """Return whether the rule is for the function with this index."""
        return includes(self.function, function)

    def __getitem__(self, parameter: str) -> Any:
        """A parameter of the action; None when the rule does not give it."""
        return getattr(self, parameter)

    def to_table(self) -> dict[str, Any]:
        """The rule as in a plan, without the keys that have their defaults."""
        table = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return {"name": table.pop("name", ""), **table} if self.name else table

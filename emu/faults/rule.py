"""One rule of a plan: which events of a point it is about, and which of those fail.

The words for when it fires are those of the kernel's Documentation/fault-injection. Beside them
stand ``match``, values of fields of the event, and ``index``, the how-many-th matching event. What
happens is the action's name; :mod:`emu.faults.plan` adds the parameters that actions declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

_U64 = (1 << 64) - 1

Value = bool | int | str
"""A value of a field: a number, a name of an enumeration, hexadecimal digits of bytes."""


def _flat(table: Any) -> Any:
    """``{"a": {"b": 1}}`` as ``{"a.b": 1}``: TOML's dotted keys come as tables."""
    return dict(_leaves(table, "")) if isinstance(table, Mapping) else table


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Count = Annotated[int, Field(strict=True, ge=1, le=_U64)]
Match = Annotated[dict[str, Value | list[Value]], BeforeValidator(_flat)]
Assignments = Annotated[dict[str, Value], BeforeValidator(_flat), Field(min_length=1)]


class Rule(BaseModel):
    """What happens at a point, and to which of its events.

    The n-th event that ``match`` takes fires when it is not among the first ``space`` of them,
    ``n - space`` is a multiple of ``interval``, n is in ``index`` if there is one, the dice of
    (seed, name, n) say ``probability`` in a hundred, and the rule has fired fewer than ``times``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[StrictStr, Field(max_length=80, pattern=r"^[^\s\x00-\x1f]*$")] = ""
    point: str
    action: str
    match: Match = Field(default_factory=dict)
    function: Annotated[int, Field(strict=True, ge=0, le=15)] | None = None
    """Only at the function with this index in the run."""
    index: Annotated[list[Count], BeforeValidator(_listed)] | None = None
    probability: Annotated[float, Field(ge=0, le=100)] = 100.0
    """In percent."""
    interval: Count = 1
    times: Annotated[int, Field(strict=True, ge=-1, le=_U64)] = -1
    """How often at most; -1 is no limit."""
    space: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    """Events that pass unharmed before any can fail."""
    after: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    """Commands that the function has run before the rule is armed."""
    until: Annotated[int, Field(strict=True, ge=0, le=_U64)] | None = None
    """Commands that it has run when the rule is taken away."""

    def __getitem__(self, parameter: str) -> Any:
        """A parameter of the action; None when the rule does not give it."""
        return getattr(self, parameter)

    def to_table(self) -> dict[str, Any]:
        """The rule as a plan says it: what was given, defaults left out."""
        table = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return {"name": table.pop("name", ""), **table} if self.name else table

"""Plans and their rules, checked: what a plan may say, and what every mistake in one is called.

A rule's words for when it fires are those of the kernel's Documentation/fault-injection. Beside
them stand ``match``, values of fields of the event, and ``index``, the how-many-th matching event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
)

from emu.faults.checks import problems
from emu.faults.vocabulary import Action, Point

MOST_RULES = 1000
MOST_MS = 24 * 3600 * 1000
MOST_COPIES = 1000
_MOST_TEXT = 2000
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
    point: Point
    action: Action
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

    status: StrictStr | StrictInt | None = None
    syndrome: StrictStr | StrictInt | None = None
    delivery: StrictStr | StrictInt | None = None
    vendor: Annotated[int, Field(strict=True, ge=0, le=255)] | None = None
    ms: Annotated[float, Field(ge=0, le=MOST_MS)] | None = None
    count: Annotated[int, Field(strict=True, ge=-MOST_COPIES, le=MOST_COPIES)] | None = None
    set: Assignments | None = None
    data: Annotated[StrictStr, Field(pattern=r"^([0-9A-Fa-f]{2})+$", max_length=8192)] | None = None
    timer: Annotated[int, Field(strict=True, ge=0, le=31)] | None = None
    fatal: StrictBool | None = None
    severity: Annotated[int, Field(strict=True, ge=0, le=7)] | None = None
    stalled: StrictBool | None = None
    up: StrictBool | None = None
    event: StrictStr | StrictInt | None = None
    sub_type: Annotated[int, Field(strict=True, ge=0, le=255)] | None = None
    vector: Annotated[int, Field(strict=True, ge=0, le=63)] | None = None
    starve: StrictBool | None = None
    error: StrictStr | None = None

    def problems(self) -> Iterator[tuple[str, str]]:
        """Key and explanation of everything that does not fit together."""
        given = self.model_dump(exclude_none=True, exclude_unset=True)
        return problems(self.point, self.action, given)

    def to_table(self) -> dict[str, Any]:
        """The rule as a plan says it: what was given, defaults left out."""
        table = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return {"name": table.pop("name", ""), **table} if self.name else table


class Expectation(BaseModel):
    """What a stock driver makes of a plan: the plan's own test, and its row in the table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    row: Annotated[StrictStr, Field(max_length=200)]
    """What the plan injects, in the words of the driver's expectations."""
    does: Annotated[StrictStr, Field(max_length=_MOST_TEXT)]
    """What the driver does about it, in a sentence."""
    when: Annotated[StrictStr, Field(pattern="^(loaded|loading)$")] = "loaded"
    """``loaded``: the plan begins under a driver that is up; ``loading``: before it loads."""
    run: Annotated[StrictStr, Field(max_length=_MOST_TEXT)] = ""
    """The command that meets the fault; nothing waits for the log alone."""
    status: StrictInt | None = 0
    """Its exit status; -1 is any but 0."""
    says: StrictStr = ""
    """A regular expression that its output has."""
    dmesg: list[StrictStr] = Field(default_factory=list)
    """Regular expressions, one for a line of the kernel's log each."""
    reporter: StrictStr = ""
    """The devlink health reporter whose error count goes up."""
    panics: StrictBool = False
    """Whether the kernel panics; ``dmesg`` is then looked for on the console."""
    heals: Annotated[StrictStr, Field(pattern="^(by itself|reload|reboot|no)$")] = "by itself"
    """What brings traffic back when the plan is over: nothing, a reload of the driver, a reboot."""
    model: StrictStr = "connectx6-vf"
    quick: StrictBool = False
    """Whether it runs with every test run, not only with all plans."""
    seconds: Annotated[int, Field(strict=True, ge=1, le=600)] = 60
    """How long the kernel's log may take to say it."""


class Plan(BaseModel):
    """Rules, and the seed that all their dice come from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[StrictStr, Field(max_length=80)] = ""
    about: Annotated[StrictStr, Field(max_length=_MOST_TEXT)] = ""
    seed: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    rule: list[Rule] = Field(default_factory=list, max_length=MOST_RULES)
    expect: Expectation | None = None

    def to_table(self) -> dict[str, Any]:
        """The plan as TOML or JSON says it."""
        table: dict[str, Any] = {}
        for key in ("name", "about", "seed"):
            if value := getattr(self, key):
                table[key] = value
        return table | {"rule": [rule.to_table() for rule in self.rule]}

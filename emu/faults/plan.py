"""Plans: rules, the seed that their dice come from, and what a stock driver makes of them.

What a rule may say is in :class:`emu.faults.rule.Rule`; the names of points and actions, and the
parameters, come from the declarations of the fault points. :mod:`emu.faults.checks` says how the
parts of a rule fit together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, create_model

from emu.faults.rule import Rule
from emu.faults.vocabulary import ACTIONS, PARAMETERS, POINTS

MOST_RULES = 1000
_MOST_TEXT = 2000
_U64 = (1 << 64) - 1

if TYPE_CHECKING:
    WholeRule = Rule
else:
    WholeRule = create_model(
        "Rule",
        __base__=Rule,
        __doc__="A rule with the parameters of all actions, at points that there are.",
        point=(Literal[tuple(POINTS)], ...),
        action=(Literal[tuple(ACTIONS)], ...),
        **{one.name: (one.type | None, None) for one in PARAMETERS.values()},
    )


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
    rule: list[WholeRule] = Field(default_factory=list, max_length=MOST_RULES)
    expect: Expectation | None = None

    def to_table(self) -> dict[str, Any]:
        """The plan as TOML or JSON says it."""
        table: dict[str, Any] = {}
        for key in ("name", "about", "seed"):
            if value := getattr(self, key):
                table[key] = value
        return table | {"rule": [rule.to_table() for rule in self.rule]}

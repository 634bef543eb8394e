"""Plans: rules, the seed of their random decisions, and the reaction of a stock driver.

:class:`emu.device.faults.rule.Rule` has the keys of a rule; the names of points and actions, and
the parameters, are derived from the declarations of the fault points.
:mod:`emu.device.faults.validation` checks the combination of a rule's keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, create_model

from emu.device.faults.link import PlannedLink
from emu.device.faults.rule import Rule
from emu.device.faults.schema import ACTIONS, PARAMETERS, POINTS

LOADING: Final = "loading"
LOADED: Final = "loaded"
"""Start of a plan: before the driver loads, so with the guest's boot; or once it is up."""
When = Literal["loading", "loaded"]
MAX_RULES = 1000
MAX_LINKS = 1000
_MAX_TEXT = 2000
_U64 = (1 << 64) - 1

if TYPE_CHECKING:
    WholeRule = Rule
else:
    WholeRule = create_model(
        "Rule",
        __base__=Rule,
        __doc__="A rule with the parameters of all actions, at one of the declared points.",
        point=(Literal[tuple(POINTS)], ...),
        action=(Literal[tuple(ACTIONS)], ...),
        **{one.name: (one.type | None, None) for one in PARAMETERS.values()},
    )


class Expectation(BaseModel):
    """The reaction of a stock driver to a plan: the plan's own test, and its row in the table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    row: Annotated[StrictStr, Field(max_length=200)] = ""
    """A phrase for the injected failure, in the table of the library."""
    does: Annotated[StrictStr, Field(max_length=_MAX_TEXT)] = ""
    """The driver's reaction, in a sentence, for the same table."""
    when: When = LOADED
    """``loaded``: the plan starts while the driver is up; ``loading``: before it loads."""
    run: Annotated[StrictStr, Field(max_length=_MAX_TEXT)] = ""
    """The shell command that triggers the fault; empty if waiting for the log is enough."""
    status: StrictInt | None = 0
    """Exit status of the command; -1 stands for any but 0."""
    says: StrictStr = ""
    """A regular expression that the command's output must match."""
    dmesg: list[StrictStr] = Field(default_factory=list)
    """Regular expressions, each for one line of the kernel's log."""
    reporter: StrictStr = ""
    """The devlink health reporter whose error count increases."""
    panics: StrictBool = False
    """Whether the kernel panics; ``dmesg`` is then matched on the console."""
    heals: Literal["by itself", "reload", "reboot", "no"] = "by itself"
    """Action that restores traffic after the plan: none, a reload of the driver, a reboot."""
    model: StrictStr = "connectx6-vf"
    quick: StrictBool = False
    """Whether every test run includes it, not only the one of all plans."""
    seconds: Annotated[int, Field(strict=True, ge=1, le=600)] = 60
    """Seconds until the lines must be in the kernel's log."""


class Plan(BaseModel):
    """Rules and links, and the seed of all their random decisions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[StrictStr, Field(max_length=80)] = ""
    about: Annotated[StrictStr, Field(max_length=_MAX_TEXT)] = ""
    when: When | None = None
    """Start of the plan; by default from the expectation, or with the boot if there is none."""
    seed: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    rule: list[WholeRule] = Field(default_factory=list, max_length=MAX_RULES)
    link: list[PlannedLink] = Field(default_factory=list, max_length=MAX_LINKS)
    expect: Expectation | None = None

    @property
    def begins(self) -> When:
        """Start of the plan: while the driver is ``loading``, or once the driver is ``loaded``."""
        if self.when is not None:
            return self.when
        return LOADING if self.expect is None else self.expect.when

    def to_table(self) -> dict[str, Any]:
        """Return the plan as a table for TOML or JSON, without empty values and ``expect``."""
        table: dict[str, Any] = {}
        for key in ("name", "about", "when", "seed"):
            if value := getattr(self, key):
                table[key] = value
        table["rule"] = [rule.to_table() for rule in self.rule]
        return table | ({"link": [link.to_table() for link in self.link]} if self.link else {})

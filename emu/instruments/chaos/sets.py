"""Reads a set of failures: each has a name, a sentence, a fault plan and a moment.

A plan is named (``@link-flaps``, or a file beside the set) or part of the set: ``[[failure.rule]]``
and ``[[failure.link]]`` have the keys of a plan. A set may have a base, another set, whose failures
it replaces by name. All mistakes are reported before a guest starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, model_validator

from emu.device.faults.parser import PlanError, dump, from_table, load
from emu.device.faults.plan import Plan
from emu.host import shipped
from emu.host.toml_file import TomlFile
from emu.host.user_error import UserError
from emu.host.userfiles import missing_text
from emu.instruments.campaign.matrix import Mistake
from emu.instruments.campaign.matrix_tables import Name
from emu.instruments.chaos.moments import chosen, moved
from emu.near import listed, near
from emu.server.service.plan_files import read_plan

MAX_FAILURES = 1000
MAX_NUMBER = 1_000_000
"""Limit of the moments, in events."""
_MAX_BASES = 3
"""Sets whose failures a set takes over, one from the other."""
_MAX_LISTED = 5
"""Failures that a message lists."""
_NO_MOMENT = "capabilities"
"""Action whose effect is over once the driver has loaded."""

LinkLayer = Literal["ib", "eth"]
Number = Annotated[int, Field(strict=True, ge=1, le=MAX_NUMBER)]


def _as_range(said: Any) -> Any:
    return [said, said] if isinstance(said, int) and not isinstance(said, bool) else said


class _SetTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FailureTable(_SetTable):
    """``[[failure]]``: a plan, and the moment at which it begins.

    ``when`` is a number of events, or a range from which the seed chooses one
    (:func:`emu.instruments.chaos.moments.moved`); without it the plan begins by itself. ``only``
    limits the failure to one link layer.
    """

    name: Name
    about: Annotated[StrictStr, Field(min_length=1, max_length=300)]
    only: LinkLayer | None = None
    plan: StrictStr | None = None
    when: Annotated[tuple[Number, Number] | None, BeforeValidator(_as_range)] = None
    rule: tuple[dict[str, Any], ...] = ()
    link: tuple[dict[str, Any], ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> FailureTable:
        """Return the table. Raises ValueError for no plan, two plans, or an empty range."""
        if (self.plan is None) == (not self.rule and not self.link):
            raise ValueError("a failure has a plan, or rules and links of its own")
        if self.when is not None and self.when[0] > self.when[1]:
            raise ValueError("when: the first number is above the last")
        return self


class ChaosSetFile(_SetTable):
    """The content of a set; ``base`` is ``@NAME`` or a file beside the set."""

    about: StrictStr = ""
    base: StrictStr | None = None
    failure: Annotated[tuple[FailureTable, ...], Field(min_length=1, max_length=MAX_FAILURES)]


class ChaosFailure(NamedTuple):
    """One failure; ``plan`` has no moment yet."""

    name: str
    about: str
    plan: Plan
    when: tuple[int, int] | None
    only: LinkLayer | None

    def planned(self, seed: int) -> Plan:
        """Return the plan with the seed's random decisions, at the seed's moment."""
        plan = self.plan
        if self.when is not None:
            plan = moved(plan, chosen(self.when, self.name, seed))
        update = {"name": self.name, "seed": seed, "expect": None, "when": None}
        planned: Plan = plan.model_copy(update=update)
        return planned


def read_sets(paths: Sequence[Path]) -> list[ChaosFailure]:
    """Return the failures of the sets, in their order.

    Raises UserError with file, line and reason for each mistake of a set, and for a failure that
    two sets have. Raises OSError.
    """
    failures: dict[str, ChaosFailure] = {}
    for path in paths:
        for one in _read_set(path):
            if one.name in failures:
                raise UserError(f"{path}: {one.name!r} is a failure of another set")
            failures[one.name] = one
    return list(failures.values())


def as_option(name: str, value: str) -> str:
    """Return a choice as the user typed it on the command line."""
    return f"--{name} {value}"


def selected(
    failures: Sequence[ChaosFailure],
    link: LinkLayer | None,
    patterns: Sequence[str],
    typed: Callable[[str, str], str] = as_option,
) -> list[ChaosFailure]:
    """Return the failures of a link layer (all for None) that any of ``patterns`` matches.

    Without patterns all match. Raises UserError if no failure is of the link layer, and, with near
    names, for a pattern without a match. ``typed`` returns ``link`` or ``only`` and its value as
    the user typed them.
    """
    possible = [one for one in failures if link is None or one.only in (None, link)]
    if not possible:
        raise UserError(f"{typed('link', str(link))}: the sets have no failure of this link layer")
    names = [one.name for one in possible]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            some = near(pattern, names) or f"; failures: {listed(names, _MAX_LISTED)}"
            raise UserError(f"{typed('only', pattern)} matches no failure{some}")
    return [
        one
        for one in possible
        if not patterns or any(fnmatchcase(one.name, pattern) for pattern in patterns)
    ]


def one_sided(failures: Sequence[ChaosFailure]) -> list[ChaosFailure]:
    """Return the failures without rules and links of a second function."""
    return [
        one
        for one in failures
        if all(rule.function in (None, 0) for rule in one.plan.rule)
        and all(link.function in (None, 0) for link in one.plan.link)
    ]


def _read_set(path: Path, bases: int = _MAX_BASES) -> list[ChaosFailure]:
    """Return the failures of one set: its base's, those of the same name replaced, then the others.

    Raises UserError for all its mistakes, also for more than ``bases`` bases, and OSError.
    """
    file = TomlFile(path, ChaosSetFile, {"failure": FailureTable})
    mistakes: list[Mistake] = list(file.mistakes)
    failures: dict[str, ChaosFailure] = {}
    inherited: list[ChaosFailure] = []
    if (word := file.content.base) is not None:
        try:
            inherited = _base(word, path.resolve().parent, bases)
        except UserError as error:
            mistakes.append((("base",), error))
    for number, table in enumerate(file.content.failure):
        place = ("failure", number)
        if table.name in failures:
            mistakes.append(((*place, "name"), f"{table.name!r} is the name of another failure"))
            continue
        try:
            plan = _plan(table, path.resolve().parent)
        except UserError as error:
            mistakes.append(((*place, "plan"), error))
            continue
        mistakes += (((*place, "when"), why) for why in _no_moment(table, plan))
        failures[table.name] = ChaosFailure(table.name, table.about, plan, table.when, table.only)
    if mistakes:
        raise file.errors_at(mistakes)
    return list(({one.name: one for one in inherited} | failures).values())


def _base(word: str, folder: Path, bases: int) -> list[ChaosFailure]:
    """Return the failures of the base ``word`` of a set in ``folder``.

    Raises UserError if there may be no more bases, and as :func:`_read_set`. Raises OSError.
    """
    if not bases:
        raise UserError(f"base: more than {_MAX_BASES} bases in a row")
    return _read_set(_named("failure set", word, folder), bases - 1)


def _named(kind: str, word: str, folder: Path) -> Path:
    """Return the example ``@NAME`` of a kind, or a file of ``folder``; UserError without any."""
    named = shipped.named_example(kind, word)
    path = folder / word if named is None else named
    if not path.is_file():
        raise UserError(missing_text(kind, path))
    return path


def _plan(table: FailureTable, base: Path) -> Plan:
    """Return the plan of a failure. Raises UserError for an unknown or invalid one, and OSError."""
    if table.plan is None:
        of_table = {"rule": list(table.rule), "link": list(table.link)}
        try:
            return from_table(of_table, table.name)
        except PlanError as error:
            raise UserError(str(error)) from None
    return read_plan(_named("plan", table.plan, base))


def _no_moment(table: FailureTable, plan: Plan) -> Iterator[str]:
    """Yield the reason why the plan of a failure with ``when`` cannot begin at a moment."""
    if table.when is None:
        return
    if not plan.rule:
        yield "when: the plan has only links, which begin with the test"
    elif any(rule.action == _NO_MOMENT for rule in plan.rule):
        yield "when: capabilities are read while the driver loads, before the test begins"
    else:
        try:
            load(dump(moved(plan, table.when[0])))
        except PlanError as error:
            yield f"when: {error}"

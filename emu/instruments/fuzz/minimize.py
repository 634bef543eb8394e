"""Minimizes an input that shows a finding."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from emu.device.faults.parser import from_table
from emu.instruments.fuzz.mutate import Input
from emu.instruments.fuzz.rules import Table
from emu.instruments.minimize.ddmin import ddmin
from emu.instruments.minimize.search import Search, Shows

logger = logging.getLogger(__name__)

MAX_TRIALS = 12
_TIMES = ("probability", "space", "index", "times")


def minimize_input(
    one: Input, shows: Callable[[Input], bool], limit: int = MAX_TRIALS
) -> Input | None:
    """Return the smallest input found that shows the finding; None if ``one`` does not.

    Rules are removed first, then fields that they set, then conditions on when they fire. ``shows``
    tries an input, at most ``limit`` times; the smallest one so far is returned after that.
    """

    def made(rules: list[Table]) -> Input:
        return Input(from_table({"seed": one.plan.seed, "rule": rules}), one.workload)

    search = Search[list[Table]](lambda rules: shows(made(rules)), repr, limit)
    best = search.run(partial(_strategy, one.rules))
    if search.is_cut:
        logger.info("plan may not be minimal: limit of %d trials reached", limit)
    return None if best is None else made(best)


def _strategy(rules: list[Table], shows: Shows[list[Table]]) -> None:
    """Minimize the rules of an input by trials; at least one stays. The search keeps the result."""

    def does(some: list[Table]) -> bool:
        return bool(some) and shows(some)

    if not does(rules):
        return
    rules = ddmin(rules, does)
    for at in range(len(rules)):
        rules = _with_fewer_fields(rules, at, does)
    for at in range(len(rules)):
        rules = _more_often(rules, at, does)


def _with_fewer_fields(
    rules: list[Table], at: int, does: Callable[[list[Table]], bool]
) -> list[Table]:
    """Return the rules with the fields of rule ``at`` minimized; at least one field stays."""
    fields: list[tuple[str, Any]] = list(rules[at].get("set", {}).items())

    def with_some(some: list[tuple[str, Any]]) -> list[Table]:
        return [*rules[:at], {**rules[at], "set": dict(some)}, *rules[at + 1 :]]

    if len(fields) < 2:
        return rules
    return with_some(ddmin(fields, lambda some: bool(some) and does(with_some(some))))


def _more_often(rules: list[Table], at: int, does: Callable[[list[Table]], bool]) -> list[Table]:
    """Return the rules with the conditions of rule ``at`` removed, if these still show the finding.

    Otherwise return ``rules``. The conditions say when the rule fires.
    """
    plain = copy.deepcopy(rules)
    for name in _TIMES:
        plain[at].pop(name, None)
    return plain if plain != rules and does(plain) else rules

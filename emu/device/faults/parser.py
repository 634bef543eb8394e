"""Plans as TOML: read with the location of every mistake, and written."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from itertools import count
from typing import Any

import tomli_w

from emu.device.faults.link import PlannedLink
from emu.device.faults.plan import Plan
from emu.device.faults.rule import Rule
from emu.device.faults.toml_limits import TooComplexError, cuts, header_name, reason_unfit
from emu.device.faults.validation import misfits, refused_keys, sound_rules, validated
from emu.device.rounds.portions import Portions, finish
from emu.device.rounds.sizes import CHARACTERS_PER_PORTION
from emu.toml_lines import Place, TomlLines, syntax_mistake

MAX_BYTES = 1 << 20
_MAX_SHOWN = 20


class PlanError(ValueError):
    """An invalid plan; each line of the text gives a location, a key and the mistake."""


def load(text: str, source: str = "plan") -> Plan:
    """Return the plan in a TOML text, with a name for each rule.

    Raises :class:`PlanError`, with a line for each mistake (at most 20); ``source`` is the file's
    name in it.
    """
    return finish(loading(text, source))


def loading(text: str, source: str = "plan") -> Portions[Plan]:
    """Return the plan like :func:`load`, in steps of some milliseconds: a generator."""
    if len(text) > MAX_BYTES:
        raise PlanError(f"{source}: more than {MAX_BYTES >> 20} MiB")
    try:
        offsets = yield from cuts(text)
        table = yield from _parsed(text, offsets, source)
    except TooComplexError as error:
        raise PlanError(f"{source}:{error.line}: {error}") from None
    return (yield from _made(table, source, text))


def _parsed(text: str, offsets: Sequence[int], source: str) -> Portions[dict[str, Any]]:
    """Return the table of a text that is cut at these offsets, parsed in steps.

    Raises PlanError for invalid TOML, also for a key that is declared twice.
    """
    table: dict[str, Any] = {}
    named = {header_name(text, start) for start in offsets[1:]}
    start = lines = 0
    # Text before the first [[name]] cannot be continued by one, and is parsed with it.
    for end in (*offsets[2:], len(text)):
        if end - start < CHARACTERS_PER_PORTION and end < len(text):
            continue
        piece = text[start:end]
        try:
            values = tomllib.loads(piece)
        except (RecursionError, ValueError) as error:
            raise PlanError(f"{source}:{syntax_mistake(error, piece, lines)}") from None
        for key, value in values.items():
            if key not in table:
                table[key] = value
            elif key in named and isinstance(value, list):
                table[key] += value
            else:
                line = lines + (TomlLines(piece).of((key,)) or 1)
                raise PlanError(f"{source}:{line}: invalid TOML: {key} is declared twice")
        lines += text.count("\n", start, end)
        start = end
        yield
    return table


def from_table(table: object, source: str = "plan") -> Plan:
    """Return the plan in a table from TOML or JSON. Raises :class:`PlanError`."""
    return finish(_made(table, source))


def _made(table: object, source: str, text: str = "") -> Portions[Plan]:
    """Return the plan in a table, with names for all rules. Raises PlanError."""
    if why := reason_unfit(table):
        raise PlanError(f"{source}: {why}")
    plan = yield from _checked(table, source, text)
    return _named(plan)


def _checked(table: Any, source: str, text: str = "") -> Portions[Plan]:
    """Return the plan in a table, in steps. Raises PlanError, which lists the mistakes by line.

    ``text``, if given, provides the lines.
    """
    plan, mistakes = validated(table)
    yield
    refused = refused_keys(mistakes)
    if plan is not None:
        rules: dict[int, Rule] = dict(enumerate(plan.rule))
    else:
        rules = yield from sound_rules(table, refused)
    mistakes += yield from misfits(rules, refused)
    if plan is not None and not mistakes:
        return plan
    lines = TomlLines(text) if text else None
    if lines is not None:
        mistakes.sort(key=lambda mistake: lines.of(mistake[0]))
    shown = [f"{_place(source, lines, where)}: {why}" for where, why in mistakes[:_MAX_SHOWN]]
    if len(mistakes) > _MAX_SHOWN:
        shown.append(f"{source}: {len(mistakes) - _MAX_SHOWN} more")
    raise PlanError("\n".join(shown))


def rule_from_table(table: object, source: str = "rule") -> Rule:
    """Return one rule, which may have no name. Raises :class:`PlanError`."""
    return _plan_of("rule", table, source).rule[0]


def link_from_table(table: object, source: str = "link") -> PlannedLink:
    """Return one link. Raises :class:`PlanError`."""
    return _plan_of("link", table, source).link[0]


def _plan_of(key: str, table: object, source: str) -> Plan:
    """Return a plan of one rule or link. Raises PlanError, whose mistakes do not number it."""
    if why := reason_unfit(table):
        raise PlanError(f"{source}: {why}")
    try:
        return finish(_checked({key: [table]}, source))
    except PlanError as error:
        raise PlanError(str(error).replace(f"{key}[1].", "").replace(f"{key}[1]", "")) from None


def dump(plan: Plan) -> str:
    """Return the plan as TOML."""
    text: str = tomli_w.dumps(plan.to_table())
    return text


def _named(plan: Plan) -> Plan:
    """Return the plan with a name for every rule: ``rule-N``, by its number from 1.

    Where another rule has that name, N is the next free number above the number of rules.
    """
    names = {rule.name for rule in plan.rule}
    free = (name for name in map("rule-{}".format, count(len(plan.rule) + 1)) if name not in names)
    rules = []
    for number, rule in enumerate(plan.rule, 1):
        if not rule.name:
            name = f"rule-{number}"
            rule = rule.model_copy(update={"name": next(free) if name in names else name})
        rules.append(rule)
    named: Plan = plan.model_copy(update={"rule": rules})
    return named


def _place(source: str, lines: TomlLines | None, where: Place) -> str:
    """Return the location of a mistake as text: source, line if known, and dotted key."""
    names: list[str] = []
    for part in where:
        if isinstance(part, int) and names:
            names[-1] += f"[{part + 1}]"
        else:
            names.append(str(part))
    line = lines.of(where) if lines is not None else 0
    place = f"{source}:{line}" if line else source
    return ": ".join([place, ".".join(names)] if names else [place])

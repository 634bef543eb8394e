"""The mistakes in a plan's table: all of them in one pass, each with a place and similar names.

pydantic checks the type of each key. Rules that pass, if need be without their mistaken keys, are
then checked as a whole: fields and their possible values, commands, registers and capabilities
against their declarations, so that a typing error is reported when the plan is read.
:mod:`emu.device.faults.parser` reports the mistakes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from emu.device.faults import registry
from emu.device.faults.enum_names import names_of
from emu.device.faults.event import EventField, Opened
from emu.device.faults.link import PlannedLink
from emu.device.faults.parameters import has_field, listing, near_fields
from emu.device.faults.plan import Expectation, Plan, WholeRule
from emu.device.faults.registry import DeclaredPoint, Problem
from emu.device.faults.rule import Rule
from emu.device.faults.schema import ACTIONS, PARAMETERS, POINTS, Action
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import RULES_PER_PORTION
from emu.model_words import given_text, in_words, model_mistakes
from emu.near import near
from emu.toml_lines import Place
from layouts.enums.cmd import Op
from layouts.prm import Prm

_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "rule": WholeRule,
    "link": PlannedLink,
    "expect": Expectation,
}
_NAMES: Final[Mapping[str, Collection[str]]] = {"point": POINTS, "action": ACTIONS}

Mistake = tuple[Place, str]


def validated(table: object) -> tuple[Plan | None, list[Mistake]]:
    """Return the plan if every value has its type, or else None and the mistakes."""
    if not isinstance(table, Mapping):
        return None, [((), "a plan is a table")]
    try:
        return Plan.model_validate(table), []
    except ValidationError as error:
        found = model_mistakes(error.errors(include_url=False), table)
        return None, [(place[:4], _explained(place, details)) for place, details in found]


def misfits(rules: Mapping[int, Rule], refused: Mapping[int, Set[str]]) -> Portions[list[Mistake]]:
    """Return the mistakes in combinations of keys of ``rules``, by their index in the plan.

    ``refused`` are the keys that :func:`refused_keys` returned, by the same index.
    Yields after about :data:`RULES_PER_PORTION` rules and names of fields in them.
    """
    mistakes: list[Mistake] = []
    names: set[str] = set()
    examined = 0
    for index, rule in rules.items():
        found = problems(rule, refused.get(index, frozenset()))
        mistakes += ((("rule", index, key), why) for key, why in found)
        if rule.name in names:
            mistakes.append((("rule", index, "name"), f"{rule.name!r} is the name of another rule"))
        names |= {rule.name} - {""}
        examined += 1 + len(rule.match) + len(getattr(rule, "set", None) or ())
        if examined >= RULES_PER_PORTION:
            examined = 0
            yield
    return mistakes


def refused_keys(mistakes: Sequence[Mistake]) -> dict[int, set[str]]:
    """Return the mistaken keys of each rule, by the rule's index."""
    refused: dict[int, set[str]] = {}
    for place, _ in mistakes:
        match place:
            case ("rule", int(index), str(key), *_):
                refused.setdefault(index, set()).add(key)
    return refused


def sound_rules(table: object, refused: Mapping[int, Set[str]]) -> Portions[dict[int, Rule]]:
    """Return the rules of an invalid plan that are valid without their ``refused`` keys, by index.

    A refused action is left out as well, if the point is known: its match is still checked. Yields
    after each :data:`RULES_PER_PORTION` rules.
    """
    given = table.get("rule") if isinstance(table, Mapping) else None
    sound: dict[int, Rule] = {}
    for index, rule in enumerate(given if isinstance(given, list) else ()):
        if isinstance(rule, Mapping):
            without = refused.get(index, frozenset())
            kept = {key: value for key, value in rule.items() if key not in without}
            with contextlib.suppress(ValidationError):
                if "action" in without:
                    chosen = {key: kept[key] for key in ("point", "match") if key in kept}
                    sound[index] = Rule.model_validate({**chosen, "action": ""})
                else:
                    sound[index] = WholeRule.model_validate(kept)
        if not (index + 1) % RULES_PER_PORTION:
            yield
    return sound


def _explained(place: Place, details: Sequence[Any]) -> str:
    """Return the text of a mistake that pydantic reports, with the names that are possible."""
    detail = details[0]
    kind, last = detail["type"], place[-1] if place else ""
    if kind == "extra_forbidden":
        table = place[0] if len(place) > 1 else ""
        model = _MODELS.get(str(table), Plan)
        return f"no such key{_choice(last, [*model.model_fields])}"
    if kind == "missing":
        return "missing"
    if kind == "literal_error" and isinstance(last, str) and last in _NAMES:
        return f"no {last} {given_text(detail['input'])}{_choice(detail['input'], [*_NAMES[last]])}"
    if kind == "value_error" and isinstance(detail.get("input"), Mapping):
        return str(detail["ctx"]["error"])
    return in_words(details)


def _choice(name: object, known: Sequence[str]) -> str:
    """Return the similar names, or all of them if there are none."""
    return near(str(name), known) or listing(known)


def problems(rule: Rule, refused: Set[str] = frozenset()) -> Iterator[Problem]:
    """Yield the key and an explanation for each mistake in a rule's combination of keys.

    Keys in ``refused`` were given with mistakes of their own, so they are not missing.
    No mistake is yielded for a valid rule. With an action that is impossible at the point, only the
    match is examined besides.
    """
    given = rule.model_dump(exclude_none=True, exclude_unset=True)
    point = POINTS[rule.point]
    if "action" in refused:
        yield from _match(point, given.get("match", {}))
        return
    action = ACTIONS[rule.action]
    use = action.uses.get(point.name)
    if use is None:
        yield "action", f"{action.name} is not for {point.name}; {_those_of(point)} are"
        yield from _match(point, given.get("match", {}))
        return
    for parameter in use.needs:
        if parameter.name not in given.keys() | refused:
            yield "action", f"{action.name} needs {parameter.name}"
    allowed = action.needs | action.takes
    for name in sorted(PARAMETERS.keys() & given.keys() - allowed):
        also = f"; it takes {', '.join(sorted(allowed))}" if allowed else "; it takes nothing"
        yield name, f"{action.name} does not take it{also}"
    yield from _match(point, given.get("match", {}))
    for name in PARAMETERS:
        if name in given and name in allowed:
            yield from _parameter(action, use, name, given)


def _those_of(point: DeclaredPoint) -> str:
    return ", ".join(name for name, action in ACTIONS.items() if point.name in action.uses)


def _parameter(
    action: Action, use: registry.PointAction, name: str, given: Mapping[str, object]
) -> Iterator[Problem]:
    """Yield the mistakes of a parameter's value, unless a declaration of the action accepts it.

    The declaration at the rule's point counts, or else those at the action's other points.
    """
    declared = [one for one in use.parameters if one.name == name] or [
        one for other in action.uses.values() for one in other.parameters if one.name == name
    ]
    problems = [list(one.check(given[name], given)) for one in declared if one.check is not None]
    if len(problems) == len(declared):
        yield from min(problems, key=len)


def _match(point: DeclaredPoint, match: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the mistakes in names and values of ``match``, as pairs of key and explanation."""
    layouts: Sequence[type[Prm]] | None = None
    for name, value in match.items():
        if (field := point.fields.get(name)) is not None:
            for one in value if isinstance(value, list) else [value]:
                yield from ((f"match.{name}", why) for why in _value(field, one))
        elif (opened := point.opened) is None:
            yield f"match.{name}", f"{point.name} has {', '.join(point.fields) or 'no fields'}"
        else:
            layouts = opened.layouts(match) if layouts is None else layouts
            yield from ((f"match.{name}", why) for why in _opened(point, opened, name, layouts))


def _opened(
    point: DeclaredPoint, opened: Opened, name: str, layouts: Sequence[type[Prm]]
) -> Iterator[str]:
    """Yield the mistake of a name that neither the point nor any of the structures has."""
    path = name.removeprefix(opened.prefix)
    if layouts and not any(has_field(layout, path) for layout in layouts):
        layout, count = layouts[0], len(layouts)
        one = layout.c_name or layout.__name__
        structure = one if count == 1 else f"any of its {count} structures"
        close = near_fields(path, layouts, name.removesuffix(path), point.fields)
        yield f"no field of the point {point.name}, nor of {structure}{close}"


def _value(field: EventField, value: object) -> Iterator[str]:
    """Yield the mistake of a field's value in ``match``.

    Numbers, ranges and patterns are accepted, also those that never match.
    """
    if not isinstance(value, str) or any(mark in value for mark in "*?[") or _is_range(value):
        return
    if field.kind is int:
        yield f"{value!r} is not a number or a range like 4..7"
    elif (names := names_of(field.kind)) and value not in names:
        what = "command" if field.kind is Op else field.name
        yield f"no {what} {value!r}{near(value, names)}{listing(names)}"


def _is_range(value: str) -> bool:
    """Return whether the text is ``LOW..HIGH``, numbers from 0 on; either may be missing."""
    low, dots, high = value.partition("..")
    try:
        return bool(dots) and int(low or "0", 0) >= 0 and int(high or "0", 0) >= 0
    except ValueError:
        return False

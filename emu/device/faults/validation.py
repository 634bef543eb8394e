"""Checks of the combinations of a rule's keys, beyond the type of each.

Fields and their possible values, commands, registers and capabilities are checked against their
declarations, so that a typing error is reported when the plan is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emu.device.faults import registry
from emu.device.faults.enum_names import names_of
from emu.device.faults.event import EventField, Opened
from emu.device.faults.parameters import has_field, listing, names_in
from emu.device.faults.registry import DeclaredPoint, Problem
from emu.device.faults.rule import Rule
from emu.device.faults.schema import ACTIONS, PARAMETERS, POINTS, Action
from emu.near import near
from layouts.enums import Op


def problems(rule: Rule) -> Iterator[Problem]:
    """Yield the key and an explanation for each mistake."""
    given = rule.model_dump(exclude_none=True, exclude_unset=True)
    point, action = POINTS[rule.point], ACTIONS[rule.action]
    use = action.uses.get(point.name)
    if use is None:
        yield "action", f"{action.name} is not for {point.name}; {_those_of(point)} are"
        return
    for parameter in use.needs:
        if parameter.name not in given:
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
    """Yield the mistakes of a parameter, unless any point with the action accepts it."""
    declared = [one for one in use.parameters if one.name == name] or [
        one for other in action.uses.values() for one in other.parameters if one.name == name
    ]
    problems = [list(one.check(given[name], given)) for one in declared if one.check is not None]
    if len(problems) == len(declared):
        yield from min(problems, key=len)


def _match(point: DeclaredPoint, match: Mapping[str, object]) -> Iterator[Problem]:
    for name, value in match.items():
        if (field := point.fields.get(name)) is not None:
            for one in value if isinstance(value, list) else [value]:
                yield from ((f"match.{name}", why) for why in _value(field, one))
        elif point.opened is None:
            yield f"match.{name}", f"{point.name} has {', '.join(point.fields) or 'no fields'}"
        else:
            yield from ((f"match.{name}", why) for why in _opened(point.opened, name, match))


def _opened(opened: Opened, name: str, match: Mapping[str, object]) -> Iterator[str]:
    layout = opened.layout(match)
    if layout is not None and not has_field(layout, name.removeprefix(opened.prefix)):
        yield f"no field of {layout.prm_name}{near(name, names_in(layout))}"


def _value(field: EventField, value: object) -> Iterator[str]:
    """Yield the mistakes of a name; numbers, ranges and patterns that never match are allowed."""
    if not isinstance(value, str) or any(mark in value for mark in "*?[") or _is_range(value):
        return
    if field.kind is int:
        yield f"{value!r} is not a number or a range like 4..7"
    elif (names := names_of(field.kind)) and value not in names:
        what = "command" if field.kind is Op else field.name
        yield f"no {what} {value!r}{near(value, names)}{listing(names)}"


def _is_range(value: str) -> bool:
    low, dots, high = value.partition("..")
    try:
        return bool(dots) and int(low or "0", 0) >= 0 and int(high or "0", 0) >= 0
    except ValueError:
        return False

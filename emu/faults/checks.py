"""What the parts of a rule have to do with each other, beyond the type of each.

Field names of commands, registers and capabilities are checked against their declarations, so a
slip of the pen is found when the plan is read and not by a fault that never comes.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from emu.faults.names import number_of
from emu.faults.vocabulary import (
    MEANINGS,
    OPEN_POINTS,
    PARAMETERS,
    POINT_FIELDS,
    Action,
    Point,
)
from emu.pci import Correctable, Uncorrectable
from emu.registry import COMMANDS
from layouts import caps
from layouts.cqe import cqe64
from layouts.enums import CqeSyndrome, Delivery, EventType, Op, Status
from layouts.iseg import init_seg
from layouts.prm import Prm

Problem = tuple[str, str]
_FEW = 8
_MOST_BYTE = 255
_MOST_WORD = (1 << 32) - 1


def problems(point: Point, action: Action, given: Mapping[str, Any]) -> Iterator[Problem]:
    """Key and explanation of each thing that does not fit."""
    meaning = MEANINGS[action]
    if point not in meaning.points:
        yield "action", f"{action} is not for {point}; {_those_of(point)} are"
        return
    for name in meaning.needs:
        if name not in given:
            yield "action", f"{action} needs {name}"
    allowed = {*meaning.needs, *meaning.takes}
    for name in sorted(PARAMETERS & given.keys() - allowed):
        also = f"; it takes {', '.join(sorted(allowed))}" if allowed else "; it takes nothing"
        yield name, f"{action} does not take it{also}"
    yield from _match(point, given.get("match", {}))
    yield from _command_fields(point, given)
    for name, check in _CHECKS.items():
        if name in allowed and name in given:
            yield from ((name, why) for why in check(point, action, given[name]))


def _those_of(point: Point) -> str:
    return ", ".join(action for action, meaning in MEANINGS.items() if point in meaning.points)


def _match(point: Point, match: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in match.items():
        if name in POINT_FIELDS[point]:
            if name == "op":
                yield from ((f"match.{name}", why) for why in _ops(value))
        elif point not in OPEN_POINTS:
            yield f"match.{name}", f"{point} has {', '.join(POINT_FIELDS[point]) or 'no fields'}"
        elif point is Point.CQE and not has_field(cqe64, name.removeprefix("cqe.")):
            yield f"match.{name}", f"no field of a completion{_near(name, _names(cqe64))}"


def _command_fields(point: Point, given: Mapping[str, Any]) -> Iterator[Problem]:
    """Fields of a command that is named; of many commands at once they are not known."""
    match = given.get("match", {})
    op = match.get("op")
    command = COMMANDS.get(Op[op]) if isinstance(op, str) and op in Op.__members__ else None
    if command is None or not point.startswith("cmd"):
        return
    for name in match:
        if name not in POINT_FIELDS[point] and not has_field(command.layout_in, name):
            near = _near(name, _names(command.layout_in))
            yield f"match.{name}", f"no field of {command.layout_in.prm_name}{near}"
    layout = command.layout_out if point is Point.CMD_DONE else command.layout_in
    for name in given.get("set", {}) if given.get("action") == Action.CORRUPT else ():
        if not has_field(layout, name):
            yield f"set.{name}", f"no field of {layout.prm_name}{_near(name, _names(layout))}"


def _ops(value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and not any(mark in one for mark in "*?["):
            known = {op.name.lstrip("_") for op in Op}
            if one not in known:
                yield f"no command {one!r}{_near(one, known)}"


def has_field(prm: Prm, path: str) -> bool:
    """Whether a dotted path leads to a field of a structure."""
    name, _, rest = path.partition(".")
    for field in prm.fields:
        if field.name == name:
            return not rest or (isinstance(field.kind, Prm) and has_field(field.kind, rest))
    return False


def _names(prm: Prm) -> list[str]:
    return [field.name for field in prm.fields]


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=3)
    return f"; near it: {', '.join(near)}" if near else ""


def _one_of(value: Any, kind: type[IntEnum], most: int | None = None) -> Iterator[str]:
    """A name or a number of an enumeration; with ``most``, any number up to that."""
    try:
        number = number_of(value, kind)
    except ValueError:
        names = [member.name for member in kind]
        shown = ", ".join(names[:_FEW]) + (", ..." if len(names) > _FEW else "")
        yield f"{value!r} is none of {shown}{_near(str(value), names)}"
    else:
        if most is None and number not in kind._value2member_map_:
            yield f"{number} is none of {', '.join(f'{m.name} ({m:d})' for m in list(kind)[:_FEW])}"
        elif most is not None and not 0 <= number <= most:
            yield f"{number} is not between 0 and {most}"


def _syndrome(point: Point, action: Action, value: Any) -> Iterator[str]:
    if point in (Point.CMD, Point.CMD_DONE) and action is Action.FAIL:
        if not isinstance(value, int) or not 0 <= value <= _MOST_WORD:
            yield "a command's syndrome is a number of 32 bits"
    elif action is Action.FAIL:
        yield from _one_of(value, CqeSyndrome)
    elif not isinstance(value, int) or not 0 <= value <= _MOST_BYTE:
        yield "a syndrome of the health buffer is a number of 8 bits"


def _set(point: Point, action: Action, values: Mapping[str, Any]) -> Iterator[str]:
    wanted: Callable[[str], bool] | None = None
    if action is Action.REGISTERS:
        wanted, known = (lambda name: has_field(init_seg, name)), _names(init_seg)
    elif action is Action.CAPABILITIES:
        wanted, known = (lambda name: has_field(caps.cmd_hca_cap, name)), _names(caps.cmd_hca_cap)
    elif point is Point.CQE:
        wanted, known = (lambda name: has_field(cqe64, name)), _names(cqe64)
    elif action is Action.CORRUPT and point in _FIXED:
        known = list(_FIXED[point])
        wanted = known.__contains__
    if wanted is not None:
        for name in values:
            if not wanted(name):
                yield f"no field {name!r} here{_near(name, known)}"


_FIXED: Mapping[Point, tuple[str, ...]] = {
    Point.MMIO_READ: ("value",),
    Point.PAGE_FAULT: ("token",),
    Point.PAGE_FAULT_RESUME: ("error",),
    Point.PKT_TX: ("payload", "psn"),
    Point.PKT_RX: ("payload", "psn"),
}


def _error(_point: Point, _action: Action, value: str) -> Iterator[str]:
    names = [*Correctable.__members__, *Uncorrectable.__members__]
    if value not in names:
        yield f"no error {value!r}; there are {', '.join(names)}"


_CHECKS: Mapping[str, Callable[[Point, Action, Any], Iterator[str]]] = {
    "status": lambda _point, _action, value: _one_of(value, Status),
    "delivery": lambda _point, _action, value: _one_of(value, Delivery, 127),
    "event": lambda _point, _action, value: _one_of(value, EventType),
    "syndrome": _syndrome,
    "set": _set,
    "error": _error,
}

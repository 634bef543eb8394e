"""Parameters that many actions have, and the checks of those that name something declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Annotated, Any, Final

from pydantic import Field, StrictInt, StrictStr

from emu.device.faults.enum_names import agrees, names_of, number_of
from emu.device.faults.registry import Parameter, Problem
from emu.device.faults.rule import Assignments, Rule
from emu.device.trace.decode import event_layout
from emu.model_words import given_text, matching
from emu.near import near, near_names
from layouts.enums import EventType
from layouts.fields import FieldKind, Nested
from layouts.prm import Prm

MAX_MS = 24 * 3600 * 1000
MAX_COPIES = 1000
MAX_LISTED: Final = 40
"""Maximum number of names that a message or page lists: all sets but the commands."""

_MAX_COMPARED: Final = 8

NameOrNumber: Final = StrictStr | StrictInt

EVENT_DATA: Final = "data."
"""Prefix that the names of fields of an event's data may have."""

MS = Parameter("ms", Annotated[float, Field(ge=0, le=MAX_MS)])
COUNT = Parameter("count", Annotated[int, Field(strict=True, ge=-MAX_COPIES, le=MAX_COPIES)])
DATA = Parameter(
    "data",
    Annotated[
        StrictStr,
        Field(max_length=8192),
        matching(r"([0-9A-Fa-f]{2})+", "an even number of hexadecimal digits"),
    ],
)


def repetitions(rule: Rule) -> int:
    """Return the rule's ``count``: 1 if it has none, 0 for a negative one."""
    count: int | None = rule["count"]
    return 1 if count is None else max(count, 0)


def one_of(name: str, kind: type[IntEnum], limit: int | None = None) -> Parameter:
    """Return a parameter for a name or number of an enumeration.

    With ``limit``, any number up to it is accepted. Mistakes are yielded by the parameter's check,
    not raised.
    """

    def check(value: object, _rule: Mapping[str, object]) -> Iterator[Problem]:
        yield from ((name, why) for why in _unknown(name, value, kind, limit))

    return Parameter(name, NameOrNumber, check, tuple(names_of(kind)))


def number(name: str, bits: int, what: str) -> Parameter:
    """Return a parameter for a number of ``bits`` bits, where other actions may have a name.

    The parameter's check yields a mistake for any other value.
    """

    def check(value: object, _rule: Mapping[str, object]) -> Iterator[Problem]:
        if not isinstance(value, int) or not 0 <= value < 1 << bits:
            yield name, f"{what} is a number of {bits} bits"

    return Parameter(name, NameOrNumber, check)


def set_of(known: Iterable[str], is_known: Callable[[str], bool] | None = None) -> Parameter:
    """Return a parameter ``set`` for new values of ``known`` fields.

    ``is_known``, if given, decides about names instead. The parameter's check yields a mistake for
    each unknown name; values are not checked.
    """
    names = list(known)
    takes = is_known or names.__contains__

    def check(values: Any, _rule: Mapping[str, object]) -> Iterator[Problem]:
        for name in values:
            if not takes(name):
                yield "set", f"no field {name!r} here{near(name, names)}"

    return Parameter("set", Assignments, check)


def set_in(prm: type[Prm]) -> Parameter:
    """Return a parameter for new values of fields of a structure, by dotted names."""
    return set_of(names_in(prm), lambda name: has_field(prm, name))


def has_field(prm: type[Prm], path: str) -> bool:
    """Return whether a dotted path leads to a field of a structure; array items have no path."""
    name, _, rest = path.partition(".")
    kind = _kinds(prm).get(name)
    return kind is not None and (
        not rest or (isinstance(kind, Nested) and has_field(kind.prm, rest))
    )


@cache
def _kinds(prm: type[Prm]) -> dict[str, FieldKind]:
    """Return the kinds of a structure's fields by name: hundreds of structures may be searched."""
    return {field.name: field.kind for field in prm.fields}


def names_in(prm: type[Prm]) -> list[str]:
    """Return the names of the fields of a structure."""
    return [field.name for field in prm.fields]


def paths_in(prm: type[Prm], parents: str = "") -> Iterator[str]:
    """Yield the dotted names of a structure's fields, and of those in structures inside it."""
    for name, kind in _kinds(prm).items():
        if isinstance(kind, Nested):
            yield from paths_in(kind.prm, f"{parents}{name}.")
        else:
            yield parents + name


def near_fields(
    name: str, layouts: Sequence[type[Prm]], prefix: str = "", others: Iterable[str] = ()
) -> str:
    """Return the names of fields similar to ``name`` as the end of a sentence, or "".

    Fields of more than 8 structures are too many to compare with; only ``others`` are then.
    """
    found = near_names(name, others)
    for layout in layouts if len(layouts) <= _MAX_COMPARED else ():
        path, parents, holder = name, prefix, layout
        head, _, rest = path.partition(".")
        while rest and isinstance(kind := _kinds(holder).get(head), Nested):
            path, parents, holder = rest, f"{parents}{head}.", kind.prm
            head, _, rest = path.partition(".")
        found += [parents + field for field in near_names(head, names_in(holder))]
    return f"; near it: {', '.join(dict.fromkeys(found))}" if found else ""


def event_layouts(requested: object) -> list[type[Prm]]:
    """Return the structures in the data of the requested types of events, a value of ``match``.

    All structures for None, and if none is declared for these types.
    """
    kinds = [kind for kind in EventType if requested is None or agrees(requested, kind)]
    return _data_of(kinds) or _data_of(EventType)


def _data_of(kinds: Iterable[EventType]) -> list[type[Prm]]:
    """Return the structures that are declared for the data of events of these types."""
    sub_types = range(3)  # of page faults, the only events whose structure depends on it
    found = (event_layout(kind, sub_type) for kind in kinds for sub_type in sub_types)
    return [one for one in dict.fromkeys(found) if one is not None]


def new_data(requested: Callable[[Mapping[str, Any]], object]) -> Parameter:
    """Return a parameter ``set`` for new values of the fields of an event's data.

    ``requested`` returns the types of events of a rule, as in ``match``. The parameter's check
    yields a mistake for a name that the data of none of them has.
    """

    def check(values: Any, rule: Mapping[str, Any]) -> Iterator[Problem]:
        layouts = event_layouts(requested(rule))
        for path in values:
            name = path.removeprefix(EVENT_DATA)
            if not any(has_field(layout, name) for layout in layouts):
                yield f"set.{path}", f"no field of the event's data{near_fields(name, layouts)}"

    return Parameter("set", Assignments, check)


def listing(names: Sequence[str]) -> str:
    """Return all names of a closed set as the end of a sentence, or "" for too many to list."""
    return f"; there are {', '.join(names)}" if 0 < len(names) <= MAX_LISTED else ""


def _unknown(name: str, value: Any, kind: type[IntEnum], limit: int | None) -> Iterator[str]:
    """Yield why a value is neither a name nor a number of ``kind`` (up to ``limit``, if given).

    ``name`` is the parameter's.
    """
    try:
        number = number_of(value, kind)
    except ValueError:
        names = [member.name for member in kind]
        yield f"no {name} {given_text(value)}{near(str(value), names)}{listing(names)}"
    else:
        if limit is None and number not in kind._value2member_map_:
            yield f"no {name} {number}{listing([f'{m.name} ({m:d})' for m in kind])}"
        elif limit is not None and not 0 <= number <= limit:
            yield f"{number} is not between 0 and {limit}"

"""Parameters that many actions have, and the checks of those that name something declared."""

from __future__ import annotations

import re
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
from layouts.enums.eqe import EventType
from layouts.fields import FieldKind, Items, Nested, Number
from layouts.prm import Prm

MAX_MS = 24 * 3600 * 1000
MAX_COPIES = 1000
MAX_LISTED: Final = 40
"""Maximum number of names that a message or page lists: all sets but the commands."""

_MAX_COMPARED: Final = 8
_HEX_DIGITS: Final = re.compile(r"([0-9A-Fa-f]{2})+")
_IN_HEX: Final = "an even number of hexadecimal digits"

NameOrNumber: Final = StrictStr | StrictInt
Fits = Callable[[object], str]
"""Returns the needed value, as text, if another one is given; else nothing."""

FieldPlace = tuple[type[Prm], str]
"""A structure, and the dotted path of a field in it."""

EVENT_DATA: Final = "data."
"""Prefix that the names of fields of an event's data may have."""

MS = Parameter("ms", Annotated[float, Field(ge=0, le=MAX_MS)])
AT = Parameter("at", Annotated[int, Field(strict=True, ge=0, le=0xFFFF)])
COUNT = Parameter("count", Annotated[int, Field(strict=True, ge=-MAX_COPIES, le=MAX_COPIES)])
DATA = Parameter(
    "data",
    Annotated[
        StrictStr,
        Field(max_length=8192),
        matching(_HEX_DIGITS.pattern, _IN_HEX),
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


def set_of(**fits: Fits) -> Parameter:
    """Return a parameter ``set`` for new values of fields, each given with the check of its value.

    The parameter's check yields a mistake for each unknown name and each value of another kind.
    """

    def check(values: Any, _rule: Mapping[str, object]) -> Iterator[Problem]:
        for name, value in values.items():
            if name not in fits:
                yield "set", _no_field(name, [*fits])
            elif needed := fits[name](value):
                yield f"set.{name}", _other_value(needed, value)

    return Parameter("set", Assignments, check)


def of_bits(bits: int) -> Fits:
    """Return a check that a value is a number of at most ``bits`` bits; true is 1, false is 0."""

    def needed(value: object) -> str:
        is_fit = isinstance(value, int) and 0 <= value < 1 << bits
        return "" if is_fit else f"a number of {bits} {'bit' if bits == 1 else 'bits'}"

    return needed


def of_hex_digits(value: object) -> str:
    """Return the needed value, as text, unless ``value`` is bytes as hexadecimal digits."""
    is_fit = isinstance(value, str) and _HEX_DIGITS.fullmatch(value)
    return "" if is_fit else f"{_IN_HEX} in quotes"


def set_in(prm: type[Prm]) -> Parameter:
    """Return a parameter ``set`` for new values of fields of a structure, by dotted names.

    The parameter's check yields the mistakes of :func:`misfit_values`.
    """
    return Parameter(
        "set", Assignments, lambda values, _: misfit_values(values, lambda name: [(prm, name)])
    )


def misfit_values(
    values: Mapping[str, object],
    places_of: Callable[[str], Sequence[FieldPlace]],
    several: str = "",
) -> Iterator[Problem]:
    """Yield a mistake for each field that no structure has, and for each value that none takes.

    ``places_of`` returns where the field of a key may be, nothing where the rule does not determine
    that. ``several`` is the name for more than one structure.
    """
    for path, value in values.items():
        if not (places := places_of(path)):
            continue
        if (needed := _value_needed(places, value)) is None:
            layouts, name = [layout for layout, _ in places], places[-1][1]
            first = layouts[0]
            one = several if len(layouts) > 1 else first.c_name or first.__name__
            yield f"set.{path}", f"no field of {one}{near_fields(name, layouts)}"
        elif needed:
            yield f"set.{path}", _other_value(needed, value)


def _other_value(needed: str, value: object) -> str:
    """Return the mistake of a value where a value of another kind is needed."""
    return f"{needed} is needed, not {given_text(value)}"


def _no_field(name: str, names: Sequence[str]) -> str:
    return f"no field {name!r} here{near(name, names)}"


def has_field(prm: type[Prm], path: str) -> bool:
    """Return whether a dotted path leads to a field of a structure; array items have no path."""
    return _kind_at(prm, path) is not None


def _kind_at(prm: type[Prm], path: str) -> FieldKind | None:
    """Return the kind of the field at a dotted path; None without such a field."""
    name, _, rest = path.partition(".")
    kind = _kinds(prm).get(name)
    if not rest:
        return kind
    return _kind_at(kind.prm, rest) if isinstance(kind, Nested) else None


def _value_needed(places: Iterable[FieldPlace], value: object) -> str | None:
    """Return the value that a field needs, as text; the field is at one of the dotted paths.

    "" if one of them takes ``value``, None if no structure has a field at its path.
    """
    kinds = [kind for prm, path in places if (kind := _kind_at(prm, path)) is not None]
    return min((_needed_by(kind, value) for kind in kinds), key=len, default=None)


def _needed_by(kind: FieldKind, value: object) -> str:
    """Return the value that a field needs, as text, or "" if ``set_fields`` can set ``value``."""
    if isinstance(kind, Number):
        return of_bits(kind.width)(value)
    if isinstance(kind, Items) and not isinstance(kind.item, Number):
        return "a field of its own for each value"
    octets = kind.count if isinstance(kind, Items) else kind.width // 8
    if octets is None or (isinstance(value, str) and len(value) == 2 * octets):
        return of_hex_digits(value)
    return f"text of {2 * octets} hexadecimal digits"


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
    yields the mistakes of :func:`misfit_values`.
    """

    def check(values: Any, rule: Mapping[str, Any]) -> Iterator[Problem]:
        layouts = event_layouts(requested(rule))

        def places_of(path: str) -> list[FieldPlace]:
            return [(layout, path.removeprefix(EVENT_DATA)) for layout in layouts]

        return misfit_values(values, places_of, "the event's data")

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

"""Parameters that many actions have, and the checks of those that name something declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Annotated, Any, Final

from pydantic import Field, StrictInt, StrictStr

from emu.device.faults.enum_names import number_of
from emu.device.faults.registry import Parameter, Problem
from emu.device.faults.rule import Assignments
from emu.model_words import given_text, matching
from emu.near import near
from layouts.fields import Nested
from layouts.prm import Prm

MAX_MS = 24 * 3600 * 1000
MAX_COPIES = 1000
MAX_LISTED: Final = 40
"""Maximum number of names that a message or page lists: all sets but the commands."""

NameOrNumber: Final = StrictStr | StrictInt

MS = Parameter("ms", Annotated[float, Field(ge=0, le=MAX_MS)])
COUNT = Parameter("count", Annotated[int, Field(strict=True, ge=-MAX_COPIES, le=MAX_COPIES)])
SET = Parameter("set", Assignments)
DATA = Parameter(
    "data",
    Annotated[
        StrictStr,
        Field(max_length=8192),
        matching(r"([0-9A-Fa-f]{2})+", "an even number of hexadecimal digits"),
    ],
)


def one_of(name: str, kind: type[IntEnum], limit: int | None = None) -> Parameter:
    """Return a parameter for a name or number of an enumeration.

    With ``limit``, any number up to it is accepted. Mistakes are yielded by the parameter's check,
    not raised.
    """

    def check(value: object, _rule: Mapping[str, object]) -> Iterator[Problem]:
        yield from ((name, why) for why in _unknown(name, value, kind, limit))

    return Parameter(name, NameOrNumber, check)


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
    for field in prm.fields:
        if field.name == name:
            return not rest or (isinstance(field.kind, Nested) and has_field(field.kind.prm, rest))
    return False


def names_in(prm: type[Prm]) -> list[str]:
    """Return the names of the fields of a structure."""
    return [field.name for field in prm.fields]


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

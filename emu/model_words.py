"""Words for the mistakes that pydantic finds in a user's file: what is needed, and what is given.

pydantic's own messages name types of Python. A value with several possible types has a mistake for
each of them; here the value has one, at its place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time
from typing import Any, Final

from pydantic import AfterValidator, ValidationError

from emu.near import near
from emu.toml_lines import Place

_LONGEST_VALUE: Final = 60
_MAX_NESTED: Final = 4
_DOTTED = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(("string_type", "string_sub_type", "string_unicode"), "a string"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    "int_parsing_size": "a smaller number",
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "a table"),
}
"""The needed values for mistakes of the type, whose own messages name types of Python."""
_LIMITS: Final[Mapping[str, str]] = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "string_too_short": "a string of {min_length} or more characters",
    "string_too_long": "a string of at most {max_length} characters",
    "too_short": "a length of at least {min_length}",
    "too_long": "a length of at most {max_length}",
}
"""The needed values for mistakes of a limit; the names in braces are pydantic's."""
CHOICE: Final = "choice"
"""Type of this project's mistakes that already say what is given."""
_OWN: Final = ("value_error", "assertion_error")
"""Types of mistakes whose text is of this project."""


def matching(pattern: str, words: str) -> AfterValidator:
    """Return a check that a string matches a regular expression as a whole.

    ``words`` say what is needed, in the error for any other string.
    """
    fits: Callable[[str], object] = re.compile(pattern).fullmatch

    def check(value: str) -> str:
        if not fits(value):
            raise ValueError(words)
        return value

    return AfterValidator(check)


def model_mistakes(details: Iterable[Any], table: object) -> list[tuple[Place, list[Any]]]:
    """Return pydantic's mistakes in ``table`` by their place, in order.

    The details of one place are those of its value's possible types. A place that contains another
    mistake's place has none of its own.
    """
    places: dict[Place, list[Any]] = {}
    for detail in details:
        places.setdefault(_place(detail, table), []).append(detail)
    outer = {place[:length] for place in places for length in range(len(place))}
    return [(place, found) for place, found in places.items() if place not in outer]


def _place(detail: Any, table: object) -> Place:
    """Return the location of a mistake in a table, without pydantic's names of types."""
    place: list[str | int] = []
    inner: Any = table
    for number, part in enumerate(detail["loc"]):
        is_last = number == len(detail["loc"]) - 1
        if _holds(inner, part):
            inner = inner[part]
        elif isinstance(part, str) and _DOTTED.fullmatch(part):
            inner = None  # keys of nested tables that were made one
        elif not (is_last and detail["type"] == "missing"):
            continue
        place.append(part)
    return tuple(place)


def _holds(value: Any, part: str | int) -> bool:
    """Return whether a value of TOML has a part of this key or number."""
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def in_words(details: Sequence[Any]) -> str:
    """Return why a value is refused: the needed values, and the given one.

    ``details`` are pydantic's mistakes of one place. Unknown and missing keys are the caller's.
    """
    if details[0]["type"] == CHOICE:
        return str(details[0]["msg"])
    of_limits = [one for one in details if one["type"] not in _TYPES]
    needed = list(dict.fromkeys(filter(None, map(_needed, of_limits or details))))
    value = details[0].get("input")
    if len(details) == 1 and (hint := _hint(details[0]["type"], value)):
        return hint
    known = [name for one in details for name in _choices(one)]
    if known:
        return f"{given_text(value)} is not one of {', '.join(known)}{near(str(value), known)}"
    return f"{' or '.join(needed) or 'another value'} is needed, not {given_text(value)}"


def first_in_words(error: ValidationError) -> str:
    """Return the first mistake in a file that a program wrote, such as JSON, with its place."""
    detail = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in detail["loc"])
    kind = detail["type"]
    if kind in ("missing", "extra_forbidden"):
        return f"{place}: {'missing' if kind == 'missing' else 'unknown key'}"
    why = (
        f"invalid JSON: {detail['ctx']['error']}" if kind == "json_invalid" else in_words([detail])
    )
    return f"{place}: {why}" if place else why


def given_text(value: object) -> str:
    """Return a value of a file for a message, in TOML's words, cut at 60 characters."""
    if isinstance(value, Mapping):
        return "a table" if value else "an empty table"
    text = _inline(value, _MAX_NESTED)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _inline(value: object, depth: int) -> str:
    """Return a value as TOML has it within a list; lists in ``depth`` lists are left out."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{...}" if value else "{}"
    if not isinstance(value, list | tuple):
        return repr(value)
    if not depth and value:
        return "[...]"
    return f"[{', '.join(_inline(one, depth - 1) for one in value[:_LONGEST_VALUE])}]"


def _needed(detail: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _LIMITS:
        return _LIMITS[kind].format(**{key: _plain(value) for key, value in context.items()})
    if kind in _OWN:
        return str(context["error"])
    return _TYPES.get(kind, "")


def _plain(limit: object) -> object:
    """Return a limit without a fraction that is 0."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _choices(detail: Any) -> list[str]:
    """Return the allowed words of a mistaken choice; empty for other mistakes."""
    if detail["type"] not in ("literal_error", "enum"):
        return []
    return _QUOTED.findall(detail["ctx"]["expected"])


def _are_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _hint(kind: str, value: object) -> str:
    """Return how to write tables whose number of brackets is wrong; empty for other mistakes."""
    if kind in ("list_type", "tuple_type") and isinstance(value, Mapping):
        return "a list of tables is needed: [[NAME]], not [NAME]"
    if kind in ("model_type", "model_attributes_type") and _are_tables(value):
        return "one table is needed: [NAME], not [[NAME]]"
    return ""

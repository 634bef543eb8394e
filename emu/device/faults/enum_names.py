"""Names and numbers of enumerations: plans contain either, events a member or a number."""

from __future__ import annotations

from enum import Enum, IntEnum
from fnmatch import fnmatchcase
from typing import Any


def number_of(value: str | int, kind: type[IntEnum]) -> int:
    """Return the number of a name of ``kind``, or the number itself, unchecked.

    Names are the members' without leading underscores: "2ERR_QP" for ``_2ERR_QP``. Case counts.
    Raises ValueError for any other string, also for the name with its underscore.
    """
    if isinstance(value, str):
        for name, member in kind.__members__.items():
            if name.lstrip("_") == value:
                return int(member)
        raise ValueError(value)
    return int(value)


def names_of(kind: type | tuple[str, ...]) -> list[str]:
    """Return the names that values of a kind can have; none for numbers or free names.

    An enumeration's names are its members' without leading underscores.
    """
    if isinstance(kind, tuple):
        return list(kind)
    return [name.lstrip("_") for name in kind.__members__] if issubclass(kind, Enum) else []


def name_of(value: object) -> Any:
    """Return the name of an enumeration's member without leading underscores.

    Other values are returned unchanged.
    """
    return value.name.lstrip("_") if isinstance(value, Enum) else value


def agrees(requested: object, value: object) -> bool:
    """Return whether a field's value matches ``requested``, a value from ``match``.

    ``requested`` is a number, a range (``"4..7"``), a name or a pattern of one (``"CREATE_*"``),
    bytes as hexadecimal digits, or a list of such. A range may be open at either end. A missing
    field never matches.
    """
    if isinstance(requested, list):
        return any(agrees(one, value) for one in requested)
    if isinstance(requested, str):
        return _agrees_text(requested, value)
    return isinstance(value, int) and value == requested


def _agrees_text(requested: str, value: object) -> bool:
    """Return whether a value matches a string: hexadecimal bytes, a name, a pattern or a range."""
    if isinstance(value, bytes):
        return value.hex() == requested.lower()
    name = name_of(value)
    if isinstance(name, str) and fnmatchcase(name, requested):
        return True
    low, dots, high = requested.partition("..")
    if not isinstance(value, int) or not dots:
        return False
    try:
        return int(low or "0", 0) <= value <= (int(high, 0) if high else value)
    except ValueError:
        return False

"""Names and numbers: a plan says either, an event has an enumeration's member or a number."""

from __future__ import annotations

from enum import Enum, IntEnum
from fnmatch import fnmatchcase
from typing import Any


def number_of(value: str | int, kind: type[IntEnum]) -> int:
    """The number behind a name of ``kind``, or the number itself. Raises ValueError."""
    if isinstance(value, str):
        for name, member in kind.__members__.items():
            if name.lstrip("_") == value:
                return int(member)
        raise ValueError(value)
    return int(value)


def names_of(kind: type | tuple[str, ...]) -> list[str]:
    """The names that values of a kind can have; none where it is numbers, or any name."""
    if isinstance(kind, tuple):
        return list(kind)
    return [name.lstrip("_") for name in kind.__members__] if issubclass(kind, Enum) else []


def name_of(value: object) -> Any:
    """The name of an enumeration's member; other values as they are."""
    return value.name.lstrip("_") if isinstance(value, Enum) else value


def agrees(requested: object, value: object) -> bool:
    """Whether a field's value is one that ``match`` wants.

    Wanted are a number, a range (``"4..7"``), a name or a pattern of one (``"CREATE_*"``), bytes as
    hexadecimal digits, or a list of such.
    """
    if isinstance(requested, list):
        return any(agrees(one, value) for one in requested)
    if isinstance(requested, str):
        return _agrees_text(requested, value)
    return isinstance(value, int) and value == requested


def _agrees_text(requested: str, value: object) -> bool:
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

"""Formats counts and sizes with units, the same in all commands."""

from __future__ import annotations

_COUNTS = ("", "K", "M", "G", "T")
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def count(number: float) -> str:
    """Return a number of up to four digits with a decimal unit (K, M, G, T)."""
    return _scaled(number, 1000, _COUNTS, "")


def size(number: float) -> str:
    """Return a number of bytes with a binary unit (KiB, MiB, GiB, TiB)."""
    return _scaled(number, 1024, _SIZES, " ")


def _scaled(number: float, step: int, units: tuple[str, ...], gap: str) -> str:
    unit = units[0]
    for unit in units:
        if number < step - 0.5 or unit == units[-1]:
            break
        number /= step
    digits = 0 if unit == units[0] or 99.5 <= number < step else 1
    return f"{number:.{digits}f}{gap}{unit}"

"""Numbers for people: the same quantity in the same unit wherever it is shown."""

from __future__ import annotations

_COUNTS = ("", "K", "M", "G", "T")
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def count(number: float) -> str:
    """A number of up to four digits and its unit, of 1000."""
    return _scaled(number, 1000, _COUNTS, "")


def size(number: float) -> str:
    """Bytes, in units of 1024."""
    return _scaled(number, 1024, _SIZES, " ")


def _scaled(number: float, step: int, units: tuple[str, ...], gap: str) -> str:
    unit = units[0]
    for unit in units:
        if number < step - 0.5 or unit == units[-1]:
            break
        number /= step
    digits = 0 if unit == units[0] or 99.5 <= number < step else 1
    return f"{number:.{digits}f}{gap}{unit}"

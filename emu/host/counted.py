"""Formats numbers with their nouns or units, the same in all messages and pages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 rule``, ``2 rules``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def decimal(size: int) -> str:
    """Return a size in bytes with a decimal unit: ``1 byte``, ``999 bytes``, ``1.0 GB``."""
    if size < 1000:
        return counted(size, "byte")
    number, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if round(number, 1) < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:,.1f} {unit}"

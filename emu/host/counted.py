"""Formats a number with its noun, the same in all messages and pages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 rule``, ``2 rules``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

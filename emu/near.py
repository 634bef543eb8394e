"""Known names in error messages: those similar to an unknown one, and the first of many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_MAX_NEAR: Final = 5


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to 5 known names: those with similar letters, then those that contain ``name``.

    Case is ignored. The list is empty if no name is similar.
    """
    import difflib  # only a mistake needs it

    names = {one.lower(): one for one in known}
    wanted = name.lower()
    close = difflib.get_close_matches(wanted, list(names), n=_MAX_NEAR)
    if len(wanted) > 1:
        parts = [one for one in names if wanted in one]
        close += sorted(parts, key=lambda one: not one.startswith(wanted))
    return [names[one] for one in dict.fromkeys(close)][:_MAX_NEAR]


def near(name: str, known: Iterable[str]) -> str:
    """Return the similar names as the end of a sentence; empty if there are none."""
    names = near_names(name, known)
    return f"; near it: {', '.join(names)}" if names else ""


def listed(names: Sequence[str], limit: int) -> str:
    """Return up to ``limit`` names for a message, and the number of the others."""
    others = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {others} others" if others > 0 else "")

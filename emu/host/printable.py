"""Untrusted text on the user's terminal: characters that would control the terminal are escaped.

Names, reasons and errors come from a guest, a file, another process. Escape sequences in them could
move the cursor, rename the window or fake the user's input. Characters that change the direction of
text could make a line read differently from its content.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_KEPT: Final = "\n\t"
_HIDING: Final = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode's categories: controls, formats (directions among them), surrogates, separators."""

LONGEST_LINE: Final = 500


def printable(text: str) -> str:
    r"""Return the text with non-printing characters as ``\x1b`` and the like; newlines stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def one_line(text: str, limit: int = LONGEST_LINE) -> str:
    """Return the text of :func:`printable` on one line, cut after ``limit`` characters.

    "..." follows a cut text, in addition to ``limit``. Newlines and tabs become ``\\n`` and
    ``\\t``.
    """
    short = text[:limit]
    line = printable(short).replace("\n", "\\n").replace("\t", "\\t")
    return f"{line[:limit]}..." if len(line) > limit or len(text) > limit else line


def _shown(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _HIDING:
        return character
    return character.encode("unicode_escape").decode("ascii")

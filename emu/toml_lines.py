"""Finds the line numbers of keys in a TOML text, for error messages about a user's file.

The standard library's parser does not report them. A place is pydantic's ``loc``: a table's name,
its index if it is one of several (``[[name]]``), and the keys inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_MAX_PARTS = 16
"""Maximum depth of a key; keys that differ only below it get the line of the first."""
_HEADER = re.compile(r"\s*\[\[?([^\[\]]*)\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
"""The end of a message of tomllib."""

Place = tuple[str | int, ...]


def syntax_mistake(error: object, text: str, before: int = 0) -> str:
    """Return ``LINE: invalid TOML: REASON`` for an error of tomllib in a text, to follow ``FILE:``.

    The line of an end of the text is that of its last character. Without a position it is the
    first. ``before`` is the number of lines before the text in its file.
    """
    why = str(error) or "too deep"
    if (found := _POSITION.search(why)) is None:
        return f"{before + 1}: invalid TOML: {why}"
    line = before + int(found[1] or text.rstrip().count("\n") + 1)
    where = f"column {found[2]}" if found[2] else "at the end"
    return f"{line}: invalid TOML: {why[: found.start()]} ({where})"


class TomlLines:
    """Line numbers of a text; nested tables are found by their first header."""

    def __init__(self, text: str) -> None:
        self._at: dict[tuple[str, int, str], int] = {}
        table = ("", 0)
        counts: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                whole = header[1].strip()
                name, _, rest = whole.partition(".")
                if line.lstrip().startswith("[["):
                    counts[name] = counts.get(name, -1) + 1
                table = (name, max(counts.get(name, 0), 0))
                self._at.setdefault((*table, ""), number)
                self._at.setdefault((*table, rest), number)
            elif key := _KEY.match(line):
                whole = key[1].replace('"', "").replace("'", "")
                for prefix in _prefixes(whole):
                    self._at.setdefault((*table, prefix), number)

    def of(self, place: Place) -> int:
        """Return the line of a place, or of the innermost known table or key around it; else 0."""
        if not place:
            return 0
        name, *rest = place
        number = rest.pop(0) if rest and isinstance(rest[0], int) else 0
        return self._line((str(name), int(number)), rest) or self._line(("", 0), place)

    def _line(self, table: tuple[str, int], keys: Sequence[str | int]) -> int:
        """Return the line of the longest known prefix of ``keys``, else of the table; else 0."""
        key = ".".join(str(part) for part in keys)
        for prefix in (*reversed(list(_prefixes(key))), ""):
            if (line := self._at.get((*table, prefix))) is not None:
                return line
        return 0


def _prefixes(key: str) -> Iterator[str]:
    parts = key.split(".", _MAX_PARTS)[:_MAX_PARTS]
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))

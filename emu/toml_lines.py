"""Where the keys of a TOML text stand, so that a mistake in a user's file is told with its line.

The standard library's parser does not tell it. A place is what pydantic gives as ``loc``: a
table's name, its number when it is one of several (``[[name]]``), and the keys inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_MAX_PARTS = 16
"""Keys that differ only in later parts are told with the line of the first of them."""
_HEADER = re.compile(r"\s*\[\[?([^\[\]]*)\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")

Place = tuple[str | int, ...]


class TomlLines:
    """The lines of a text; tables in tables are found by their first header."""

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
        """The line of a place, or of the innermost table or key around it that is known; else 0."""
        if not place:
            return 0
        name, *rest = place
        number = rest.pop(0) if rest and isinstance(rest[0], int) else 0
        return self._line((str(name), int(number)), rest) or self._line(("", 0), place)

    def _line(self, table: tuple[str, int], keys: Sequence[str | int]) -> int:
        key = ".".join(str(part) for part in keys)
        for prefix in (*reversed(list(_prefixes(key))), ""):
            if (line := self._at.get((*table, prefix))) is not None:
                return line
        return 0


def _prefixes(key: str) -> Iterator[str]:
    parts = key.split(".", _MAX_PARTS)[:_MAX_PARTS]
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))

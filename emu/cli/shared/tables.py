"""Tables that fit a terminal: columns that do not fit are printed below their row, indented.

In a pipe or a file each row is one line, without folding or truncation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest

from rich.console import Console, ConsoleOptions
from rich.text import Text

GAP = 2
"""Spaces between two columns."""
INDENT = 4
"""Spaces before the columns below a row."""
MIN_FOLDED = 30
"""Minimum width of a folded column; a column with less space is printed below its row."""

Cell = str | Text


class Rows:
    """A table for a console of any width."""

    def __init__(self, *headings: str, numbers: Collection[str] = (), title: str = "") -> None:
        """``numbers`` are the headings of right-aligned columns."""
        self._headings = headings
        self._numbers = frozenset(numbers)
        self._title = title
        self._rows: list[list[Text]] = []

    def add(self, *cells: Cell) -> None:
        """Add a row; each cell is one line of printable text."""
        self._rows.append([Text(cell) if isinstance(cell, str) else cell for cell in cells])

    def __bool__(self) -> bool:
        """Return whether there is any row."""
        return bool(self._rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines that fit ``options``."""
        heads = [Text(heading, style="bold") for heading in self._headings]
        natural = [max(cell.cell_len for cell in column) for column in zip(heads, *self._rows)]
        widths = fitted(natural, options.max_width)
        if self._title:
            yield from _hanging(console, Text(self._title), options.max_width)
        yield from self._lines(console, heads, widths)
        for row in self._rows:
            yield from self._lines(console, row, widths)
            below = [
                Text.assemble(f"{heading}: ", cell)
                for heading, cell, width in zip(self._headings, row, widths)
                if not width and cell.plain
            ]
            if below:
                yield from _indented(console, Text("; ").join(below), options.max_width)

    def _lines(
        self, console: Console, row: Sequence[Text], widths: Sequence[int]
    ) -> Iterator[Text]:
        """Yield a row's lines, without the columns that are printed below it."""
        columns = [
            (width, heading in self._numbers, cell.wrap(console, width))
            for heading, cell, width in zip(self._headings, row, widths)
            if width
        ]
        for parts in zip_longest(*(lines for _, _, lines in columns), fillvalue=Text()):
            line = Text()
            for part, (width, is_number, _) in zip(parts, columns):
                gap = " " * (width - part.cell_len)
                line = Text.assemble(line, gap * is_number, part, gap * (not is_number), " " * GAP)
            line.rstrip()
            yield line


class Hanging:
    """A text whose continuation lines are indented."""

    def __init__(self, text: Cell) -> None:
        self._text = Text(text) if isinstance(text, str) else text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Text]:
        """Return the lines that fit ``options``."""
        return _hanging(console, self._text, options.max_width)


def fitted(natural: Sequence[int], width: int) -> list[int]:
    """Return each column's width, for a row of ``width``; 0 for a column below the row.

    The widest column is folded if all columns fit then. Otherwise the widest columns are printed
    below, but never the first.
    """
    widths = list(natural)
    widest = max(range(len(widths)), key=widths.__getitem__)
    left = width - _total([*widths[:widest], *widths[widest + 1 :]]) - GAP
    if widths[widest] > left >= MIN_FOLDED:
        widths[widest] = left
    while any(widths[1:]) and _total(widths) > width:
        widths[1 + max(range(len(widths) - 1), key=widths[1:].__getitem__)] = 0
    widths[0] = max(min(widths[0], width), 1)
    return widths


def _total(widths: Iterable[int]) -> int:
    """Return the width of a row without the columns below it."""
    shown = [width for width in widths if width]
    return sum(shown) + GAP * (len(shown) - 1)


def _hanging(console: Console, text: Text, width: int) -> Iterator[Text]:
    if text.cell_len <= width:
        yield text
        return
    first, *others = _wrapped(console, text, width - INDENT)
    yield first
    for line in others:
        yield Text.assemble(" " * INDENT, line)


def _indented(console: Console, text: Text, width: int) -> Iterator[Text]:
    for line in _wrapped(console, text, width - INDENT):
        yield Text.assemble(" " * INDENT, line)


def _wrapped(console: Console, text: Text, width: int) -> Iterator[Text]:
    for line in text.wrap(console, max(width, 1)):
        line.rstrip()
        yield line

"""Changes from one report to another, beyond the spread of their samples.

A row has changed if the medians differ by more than their own uncertainty (the notches of a box
plot: McGill, Tukey, Larsen 1978) and by more than two runs of the same code. A report of another
machine, or of a busier one, differs in all rows: the median of the rows' ratios shows it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from figures import Report, Row
from rich.console import Console
from rich.table import Table
from tables import figure

NOTCH = 1.57
"""Uncertainty of a median, in interquartile ranges by the root of the number of samples."""
MIN_CHANGE = 0.03
"""Minimum change: two runs on a quiet machine differ by this fraction, whatever their spread."""
FEW = 5
"""Number of samples below which their spread is not significant: two runs may differ by
UNKNOWN_CHANGE.
"""
UNKNOWN_CHANGE = 0.1

_STYLES = {"worse": "red", "better": "green", "gone": "yellow", "new": "yellow"}


@dataclass(frozen=True)
class Change:
    """Row of both reports, or of one of them."""

    section: str
    name: str
    unit: str
    before: float | None
    after: float | None
    noise: float = 0.0
    """Fraction of the value that is not significant."""
    more_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """After to before; None when there is no such number."""
        return None if self.after is None or not self.before else self.after / self.before

    @property
    def verdict(self) -> str:
        """``better``, ``worse``, ``new``, ``gone``, or nothing when it has not changed."""
        if self.before is None:
            return "" if self.after is None else "new"
        if self.after is None:
            return "gone"
        if abs(self.after - self.before) <= self.noise * abs(self.before):
            return ""
        return "better" if (self.after > self.before) is self.more_is_better else "worse"


def changes(before: Report, after: Report) -> list[Change]:
    """Return all rows of the sections that both reports have."""
    old = {section.key: section for section in before.sections}
    return [
        change
        for section in after.sections
        if section.key in old
        for change in _rows(section.key, old[section.key].rows, section.rows)
    ]


def _rows(section: str, before: Sequence[Row], after: Sequence[Row]) -> Iterator[Change]:
    old, new = ({row.name: row for row in rows} for rows in (before, after))
    for name in old | new:
        one, two = old.get(name), new.get(name)
        row = two or one
        assert row is not None
        yield Change(
            section,
            name,
            row.unit,
            None if one is None else one.value,
            None if two is None else two.value,
            math.hypot(_noise(one), _noise(two)),
            _more_is_better(row),
        )


def _noise(row: Row | None) -> float:
    """Return the possible distance of another run's median from this one's, as a fraction of it."""
    if row is None or not row.value:
        return 0.0
    if len(row.samples) < FEW:
        return UNKNOWN_CHANGE
    first, _, third = statistics.quantiles(row.samples, n=4)
    notch = NOTCH * (third - first) / math.sqrt(len(row.samples)) / abs(row.value)
    return max(notch, MIN_CHANGE / math.sqrt(2))


def _more_is_better(row: Row) -> bool:
    """Return whether the row is a rate, by its goal or its unit."""
    if row.goal is not None and not row.goal.of_ratio:
        return row.goal.at_least
    return row.unit.endswith("/s")


def print_changes(console: Console, found: Sequence[Change]) -> None:
    """Print the changed rows as a table, and the change of all rows together."""
    table = Table(title="What has changed", title_justify="left")
    for number, name in enumerate(("", "", "unit", "before", "now", "ratio", "noise", "")):
        table.add_column(name, justify="left" if number < 2 else "right")
    for change in found:
        if change.verdict:
            table.add_row(*_cells(change), style=_STYLES[change.verdict])
    console.print(table)
    ratios = [change.ratio for change in found if change.ratio is not None]
    if ratios:
        console.print(
            f"{len(found)} rows; the median of their ratios is {statistics.median(ratios):.2f}:"
            " far from 1 the machine differs, or only one run is compiled.",
            highlight=False,
        )


def _cells(change: Change) -> list[str]:
    return [
        change.section, change.name, change.unit, figure(change.before), figure(change.after),
        figure(change.ratio), f"{change.noise:.0%}", change.verdict,
    ]  # fmt: skip

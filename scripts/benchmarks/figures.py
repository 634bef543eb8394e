"""Results of a benchmark: samples, medians, ratios to the other side, and goals.

All classes convert to JSON and back, so tables can be made from a stored run.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Goal:
    """Bound on a row's value, or on the ratio of its value to the other side's."""

    bound: float
    at_least: bool = False
    of_ratio: bool = False

    def is_met(self, row: Row) -> bool | None:
        """Return whether the row meets the goal; None without a value."""
        judged = row.ratio if self.of_ratio else row.value
        if judged is None:
            return None
        return judged >= self.bound if self.at_least else judged <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{sign} {self.bound:g}{' x' if self.of_ratio else ''}"


def ratio_at_least(bound: float) -> Goal:
    """Return the goal that ours is at least ``bound`` times the other's."""
    return Goal(bound, at_least=True, of_ratio=True)


def ratio_at_most(bound: float) -> Goal:
    """Return the goal that ours is at most ``bound`` times the other's."""
    return Goal(bound, of_ratio=True)


@dataclass(frozen=True)
class Row:
    """Measurement: our samples, optionally the other side's, optionally a goal."""

    name: str
    unit: str
    samples: Sequence[float]
    others: Sequence[float] = ()
    goal: Goal | None = None

    @property
    def value(self) -> float | None:
        """Median of ours; None without a sample."""
        return median(self.samples)

    @property
    def other(self) -> float | None:
        """Median of the other's."""
        return median(self.others)

    @property
    def ratio(self) -> float | None:
        """Our median divided by the other's."""
        value, other = self.value, self.other
        return None if value is None or not other else value / other

    @property
    def verdict(self) -> str:
        """``met``, ``missed``, ``not measured``, or nothing without a goal."""
        if self.goal is None:
            return ""
        return {True: "met", False: "missed", None: "not measured"}[self.goal.is_met(self)]


@dataclass(frozen=True)
class Section:
    """Table: its rows, the names of its two sides, and remarks to print below."""

    key: str
    title: str
    rows: Sequence[Row]
    ours: str = "median"
    theirs: str = ""
    remarks: Sequence[str] = ()


@dataclass
class Report:
    """Results of one run."""

    conditions: list[str]
    sections: list[Section] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the samples, plus medians and ratios for readers of the file."""
        sections = []
        for section in self.sections:
            entry = asdict(section)
            for row, stored in zip(section.rows, entry["rows"]):
                stored |= {
                    "median": row.value,
                    "median_of_others": row.other,
                    "ratio": row.ratio,
                    "verdict": row.verdict,
                }
            sections.append(entry)
        return {"conditions": self.conditions, "sections": sections}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Report:
        """Return the report of :meth:`to_json`. Raises KeyError or TypeError for other input."""
        return cls(list(stored["conditions"]), [_section(entry) for entry in stored["sections"]])


def _section(entry: dict[str, Any]) -> Section:
    return Section(**{**entry, "rows": [_row(row) for row in entry["rows"]]})


def _row(stored: dict[str, Any]) -> Row:
    goal = stored["goal"]
    return Row(
        stored["name"],
        stored["unit"],
        stored["samples"],
        stored["others"],
        None if goal is None else Goal(**goal),
    )


def median(samples: Sequence[float]) -> float | None:
    """Return the median; None if there are no samples."""
    return statistics.median(samples) if samples else None


MAX_SAMPLES = 1000


def thinned(section: Section) -> Section:
    """Keep at most 1000 samples per row, evenly spread: medians survive, files stay small."""

    def thin(samples: Sequence[float]) -> Sequence[float]:
        return samples[:: -(-len(samples) // MAX_SAMPLES) or 1]

    rows = [
        replace(row, samples=thin(row.samples), others=thin(row.others)) for row in section.rows
    ]
    return replace(section, rows=rows)

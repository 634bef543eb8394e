"""The record of a run: what was planned, and every fault that fired, in JSON lines.

The first line is the head: ``record`` (1, the form's version), ``versions``, ``seed``, ``devices``,
``run`` (what the guest was, where there is one) and ``plan``. Each further line is a fault:
``function`` (its index), ``rule`` (its name), ``n`` (the how-many-th event that the rule matched),
``point``, ``action`` and ``event`` (which it was). Lines with ``added`` or ``removed`` tell of
rules that came or went while the run was on.

There are no times and no addresses in it: the same plan and the same actions of the driver make the
same record, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emu.faults.plan import Plan
from emu.faults.text import PlanError, from_table

VERSION = 1
MOST_LINES = 1_000_000


class RecordError(ValueError):
    """A text that is no record."""


@dataclass(frozen=True, slots=True)
class Fired:
    """One fault that fired."""

    function: int
    rule: str
    n: int
    point: str
    action: str
    event: Mapping[str, Any] = field(default_factory=dict)

    def to_line(self) -> str:
        """Its line in the record, with the end of line."""
        return line(
            {
                "function": self.function, "rule": self.rule, "n": self.n, "point": self.point,
                "action": self.action, "event": dict(self.event),
            }
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Record:
    """A record, read."""

    plan: Plan
    fired: tuple[Fired, ...]
    head: Mapping[str, Any]
    added: int = 0
    """How many rules came while the run was on; they are not in the plan."""

    def replayed(self, only: Iterable[tuple[int, str, int]] | None = None) -> Plan:
        """The plan that fires what has fired, or ``only`` those (function, rule, n) of it."""
        chosen = [(fired.function, fired.rule, fired.n) for fired in self.fired]
        if only is not None:
            wanted = set(only)
            chosen = [one for one in chosen if one in wanted]
        numbers: dict[tuple[int, str], list[int]] = {}
        for function, name, number in chosen:
            numbers.setdefault((function, name), []).append(number)
        many = len({function for function, _ in numbers}) > 1
        rules = []
        for rule in self.plan.rule:
            for (function, name), index in numbers.items():
                if name != rule.name:
                    continue
                exact: dict[str, Any] = {
                    "index": sorted(index), "probability": 100.0, "interval": 1, "times": -1,
                    "space": 0,
                }  # fmt: skip
                if many:
                    exact |= {"function": function, "name": f"{name}@{function}"}
                rules.append(rule.model_copy(update=exact))
        exactly: Plan = self.plan.model_copy(update={"rule": rules, "expect": None})
        return exactly


def line(values: Mapping[str, Any]) -> str:
    """One line of a record."""
    return json.dumps(values, separators=(",", ":")) + "\n"


def head(
    plan: Plan, versions: Mapping[str, str], devices: Sequence[str], run: Mapping[str, Any]
) -> dict[str, Any]:
    """The first line's values."""
    return {
        "record": VERSION, "versions": dict(versions), "seed": plan.seed,
        "devices": list(devices), "run": dict(run), "plan": plan.to_table(),
    }  # fmt: skip


def read(text: str, source: str = "record") -> Record:
    """The record in a text. Raises :class:`RecordError`.

    A last line that is cut short, as a full disk leaves it, is left out.
    """
    lines = text.splitlines(keepends=True)
    if not lines or len(lines) > MOST_LINES:
        raise RecordError(f"{source}: {len(lines)} lines are no record")
    first = _object(lines[0], source, 1)
    if first.get("record") != VERSION:
        raise RecordError(f"{source}: no record of version {VERSION}")
    try:
        plan = from_table(first.get("plan"), source)
    except PlanError as error:
        raise RecordError(str(error)) from None
    fired, added = [], 0
    for number, text_line in enumerate(lines[1:], 2):
        if not text_line.endswith("\n"):
            break
        values = _object(text_line, source, number)
        if "rule" in values:
            fired.append(_fired(values, source, number))
        else:
            added += "added" in values
    return Record(plan, tuple(fired), first, added)


def _object(text: str, source: str, number: int) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise RecordError(f"{source}:{number}: no JSON object")
    return values


def _fired(values: dict[str, Any], source: str, number: int) -> Fired:
    function, rule, n = (values.get(key) for key in ("function", "rule", "n"))
    if type(function) is not int or not isinstance(rule, str) or type(n) is not int:
        raise RecordError(f"{source}:{number}: no fault")
    point, action = str(values.get("point", "")), str(values.get("action", ""))
    event = values.get("event")
    return Fired(function, rule, n, point, action, event if isinstance(event, dict) else {})

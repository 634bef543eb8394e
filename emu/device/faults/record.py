"""The record of a run: its plan, and every fault that fired, in JSON lines.

The first line is the header: ``record`` (the format's version, 2), ``versions``, ``seed``,
``devices``, ``run`` (the guest, if any) and ``plan``. Each further line is a fault: ``function``
(its index), ``rule`` (its name), ``n`` (the number of the event among those that the rule matched),
``point``, ``action`` and ``event`` (its identity). A line with ``without_effect`` (the reason)
changed nothing and has not fired, even if an earlier line lists the same event. Lines with
``added`` (a rule) or ``removed`` (its name) are about rules that were added or removed during the
run. ``functions`` lists the functions concerned if a removed rule stays at others. Lines with
``link`` are about links that were set, and a line with ``seed`` is about a plan that was loaded.
``commands`` is the number of commands that each function had run by then, the only clock that two
runs share. The outcome of a link's packets is not recorded: it follows from seed and link.

Each line after the header has ``seconds`` since the server started; a replay ignores them. Records
of version 1 have none and are read as well. Apart from the seconds, the same plan and the same
actions of the driver give the same record. A record holds no addresses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from emu.device.faults.event import FaultPacket
from emu.device.faults.functions import MAX_FUNCTIONS
from emu.device.faults.link import PlannedLink
from emu.device.faults.parser import PlanError, from_table, link_from_table, load, rule_from_table
from emu.device.faults.plan import MAX_LINKS, MAX_RULES, Plan
from emu.device.faults.rule import Rule

VERSION = 2
_VERSIONS = (1, VERSION)
"""The versions that are read."""
MAX_LINES = 1_000_000
MAX_BYTES = 256 << 20
"""Limit for the text of a record, far above real ones, in bytes."""

_U64 = (1 << 64) - 1
_MAX_SECONDS = 1e12
_WORDS = ("suite", "arch", "kernel", "modules", "share")
"""The keys of ``run`` that are a string or null; ``packages``, ``pip`` and ``wheels`` are lists."""


class RecordError(ValueError):
    """The text is not a record."""


@dataclass(frozen=True, slots=True)
class Fired:
    """One fault that fired."""

    function: int
    rule: str
    n: int
    point: str
    action: str
    event: Mapping[str, Any] = field(default_factory=dict)
    without_effect: str = ""
    """Reason for a firing without effect; empty if it had an effect."""
    seconds: float | None = field(default=None, compare=False)
    """Time of the firing in seconds since the record began; None if unknown."""
    packet: FaultPacket | None = field(default=None, compare=False, repr=False)
    """Packet that the rule acts on; None for other events, and in a record that is read."""

    def to_line(self) -> str:
        """Return its line in the record, including the line end; empty values are left out."""
        why = {"without_effect": self.without_effect} if self.without_effect else {}
        when = {} if self.seconds is None else {"seconds": self.seconds}
        return line(
            {
                "function": self.function, "rule": self.rule, "n": self.n, "point": self.point,
                "action": self.action, "event": dict(self.event), **why, **when,
            }
        )  # fmt: skip


@dataclass(slots=True)
class RuleSpan:
    """Span of a rule, from its addition to its removal, in commands that each function had run."""

    came: Sequence[int] = ()
    went: dict[int, int] = field(default_factory=dict)
    """Number of commands at the removal of the rule, by function."""

    def at(self, function: int) -> dict[str, int]:
        """Return ``after`` and ``until`` of a rule for one function.

        A key that is unknown is left out.
        """
        times = {"after": self.came[function]} if function < len(self.came) else {}
        if function in self.went:
            times["until"] = self.went[function]
        return times


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """The contents of a record."""

    plan: Plan
    """Plan of the run, followed by the rules and links that were added during the run."""
    fired: tuple[Fired, ...]
    head: Mapping[str, Any]
    without_effect: tuple[Fired, ...] = ()
    """Firings that changed nothing."""
    spans: Mapping[str, RuleSpan] = field(default_factory=dict)
    """Spans of the rules that were not present for the whole run, by name."""

    def replayed(self, only: Iterable[tuple[int, str, int]] | None = None) -> Plan:
        """Return a plan that fires exactly the recorded faults, by event numbers without chance.

        ``only`` selects faults by (function, rule, n); unknown ones are ignored. Rules without a
        chosen fault are left out. With several functions each has its own copy of a rule,
        NAME@FUNCTION.
        """
        chosen = [(fired.function, fired.rule, fired.n) for fired in self.fired]
        if only is not None:
            selected = set(only)
            chosen = [one for one in chosen if one in selected]
        numbers: dict[str, dict[int, list[int]]] = {}
        for function, name, number in chosen:
            numbers.setdefault(name, {}).setdefault(function, []).append(number)
        many = len({function for of_rule in numbers.values() for function in of_rule}) > 1
        rules = []
        for rule in self.plan.rule:
            name = rule.name
            for function, index in numbers.get(name, {}).items():
                exact: dict[str, Any] = {
                    "index": sorted(index), "probability": 100.0, "interval": 1, "times": -1,
                    "space": 0,
                }  # fmt: skip
                if name in self.spans:
                    exact |= self.spans[name].at(function)
                if many:
                    exact |= {"function": function, "name": f"{name}@{function}"}
                rules.append(rule.model_copy(update=exact))
        exactly: Plan = self.plan.model_copy(update={"rule": rules, "expect": None, "when": None})
        return exactly


def line(values: Mapping[str, Any]) -> str:
    """Return the values as one line of a record: compact JSON with the line end."""
    return json.dumps(values, separators=(",", ":")) + "\n"


def head(
    plan: Plan, versions: Mapping[str, str], devices: Sequence[str], run: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of a record's first line: versions, seed, devices, run and plan."""
    return {
        "record": VERSION, "versions": dict(versions), "seed": plan.seed,
        "devices": list(devices), "run": dict(run), "plan": plan.to_table(),
    }  # fmt: skip


def read(text: str, source: str = "record") -> FaultRecord:
    """Return the record in a text. Raises :class:`RecordError` with source and line.

    A truncated last line, as on a full disk, is ignored; lines of unknown kinds are skipped.
    """
    lines = text.splitlines(keepends=True)
    if not lines or len(lines) > MAX_LINES:
        raise RecordError(f"{source}: {len(lines)} lines are not a record")
    try:
        first = _object(lines[0], source, 1)
    except RecordError:
        if _is_plan(text):
            why = "a fault plan, not a record: mlx5emu run --faults uses it"
            raise RecordError(f"{source}: {why}") from None
        raise
    if first.get("record") not in _VERSIONS:
        raise RecordError(f"{source}: not a record of version {' or '.join(map(str, _VERSIONS))}")
    if why := _wrong_head(first):
        raise RecordError(f"{source}:1: {why}")
    try:
        plan = from_table(first.get("plan"), source)
    except PlanError as error:
        raise RecordError(str(error)) from None
    reader = _RecordReader(plan)
    for number, text_line in enumerate(lines[1:], 2):
        if not text_line.endswith("\n"):
            break
        reader.take(_object(text_line, source, number), f"{source}:{number}")
    whole: Plan = plan.model_copy(
        update={"rule": reader.rules, "link": reader.links, "seed": reader.seed}
    )
    return FaultRecord(whole, reader.with_effect(), first, tuple(reader.without), reader.spans)


class _RecordReader:
    """Tracks rules as they are added and removed; a name that is used again is made unique."""

    def __init__(self, plan: Plan) -> None:
        self.rules: list[Rule] = list(plan.rule)
        self.links: list[PlannedLink] = list(plan.link)
        self.seed = plan.seed
        self.fired: list[Fired] = []
        self.without: list[Fired] = []
        self.spans: dict[str, RuleSpan] = {}
        self._used = {rule.name for rule in plan.rule}
        self._names = {rule.name: rule.name for rule in plan.rule}

    def take(self, values: dict[str, Any], place: str) -> None:
        """Process one line's values; ignore a line of an unknown kind. Raises RecordError."""
        if not _is_time(values.get("seconds")):
            raise RecordError(f"{place}: bad seconds in a record")
        if "rule" in values:
            fired = _fired(values, place)
            fired = replace(fired, rule=self._names.get(fired.rule, fired.rule))
            (self.without if fired.without_effect else self.fired).append(fired)
        elif "added" in values:
            self._added(values, place)
        elif "seed" in values:
            self._seeded(values, place)
        elif "link" in values:
            self._linked(values, place)
        elif "removed" in values:
            self._removed(values, place)

    def with_effect(self) -> tuple[Fired, ...]:
        """Return the faults that fired, without those that a later line marks as without effect."""
        taken_back = {(one.function, one.rule, one.n) for one in self.without}
        return tuple(one for one in self.fired if (one.function, one.rule, one.n) not in taken_back)

    def _added(self, values: dict[str, Any], place: str) -> None:
        """Add the rule of a line, under a unique name if an earlier rule had its name.

        Raises RecordError for an invalid rule, a name in use, and more than MAX_RULES rules.
        """
        try:
            rule = rule_from_table(values["added"], place)
        except PlanError as error:
            raise RecordError(str(error)) from None
        if not rule.name or rule.name in self._names or len(self.rules) >= MAX_RULES:
            raise RecordError(f"{place}: not a rule that can be added")
        name, number = rule.name, 1
        while name in self._used:
            number += 1
            name = f"{rule.name}~{number}"
        self._used.add(name)
        self._names[rule.name] = name
        self.rules.append(rule.model_copy(update={"name": name}))
        self.spans[name] = RuleSpan(_commands(values, place))

    def _removed(self, values: dict[str, Any], place: str) -> None:
        """Record the removal of a rule, everywhere or only at some ``functions``.

        An unknown name is ignored. Raises RecordError for other mistakes.
        """
        given, functions = str(values["removed"]), values.get("functions")
        name = self._names.get(given)
        if name is None:
            return
        if functions is None:
            del self._names[given]
        elif not _are_functions(functions):
            raise RecordError(f"{place}: functions is not a list of function indices")
        went = self.spans.setdefault(name, RuleSpan()).went
        for function, commands in enumerate(_commands(values, place)):
            if functions is None or function in functions:
                went.setdefault(function, commands)

    def _seeded(self, values: dict[str, Any], place: str) -> None:
        """Replace the seed by that of another plan, which was loaded later, for links' packets.

        Raises RecordError unless the seed is a 64-bit number.
        """
        if not _is_number(values["seed"], 0, _U64):
            raise RecordError(f"{place}: seed is not a 64-bit number")
        self.seed = values["seed"]

    def _linked(self, values: dict[str, Any], place: str) -> None:
        """Add an entry for each function at which a link was set, with its number of commands.

        Raises RecordError for an invalid link and beyond MAX_LINKS links.
        """
        try:
            link = link_from_table(values["link"], place)
        except PlanError as error:
            raise RecordError(str(error)) from None
        for function, after in enumerate(_commands(values, place)):
            if link.applies_to(function):
                update = {"function": function, "after": max(after, link.after)}
                self.links.append(link.model_copy(update=update))
        if len(self.links) > MAX_LINKS:
            raise RecordError(f"{place}: more than {MAX_LINKS} links")


def _wrong_head(head: Mapping[str, Any]) -> str:
    """Return the first type mistake in the first line's values besides its plan; empty if none."""
    if not _are_words(head.get("devices", [])):
        return "devices is not a list of strings"
    run = head.get("run", {})
    if not isinstance(run, dict):
        return "run is not an object"
    for key in _WORDS:
        if not isinstance(run.get(key), str | None):
            return f"run.{key} is not a string"
    for key in ("packages", "pip", "wheels"):
        if not _are_words(run.get(key) or []):
            return f"run.{key} is not a list of strings"
    return ""


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_functions(value: object) -> bool:
    """Return whether a value of a line is a list of at most MAX_FUNCTIONS function indices."""
    return (
        isinstance(value, list)
        and len(value) <= MAX_FUNCTIONS
        and all(_is_number(one, 0, MAX_FUNCTIONS - 1) for one in value)
    )


def _commands(values: dict[str, Any], place: str) -> list[int]:
    """Return the counts of commands by function in a line.

    Raises RecordError without a valid list.
    """
    counts = values.get("commands")
    if (
        not isinstance(counts, list)
        or len(counts) > MAX_FUNCTIONS
        or not all(_is_number(one, 0, _U64) for one in counts)
    ):
        raise RecordError(f"{place}: commands is not a list of counts")
    return counts


def _is_number(value: object, least: int, limit: int) -> bool:
    return type(value) is int and least <= value <= limit


def _is_time(value: object) -> bool:
    """Return whether a line's ``seconds`` are some, or missing as in version 1."""
    return value is None or (type(value) in (int, float) and 0 <= value < _MAX_SECONDS)  # type: ignore[operator]


def _object(text: str, source: str, number: int) -> dict[str, Any]:
    """Return the JSON object in a line. Raises RecordError for any other text."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise RecordError(f"{source}:{number}: not a JSON object")
    return values


def _is_plan(text: str) -> bool:
    """Return whether the text is a fault plan in TOML, with a rule or a link."""
    try:
        plan = load(text)
    except PlanError:
        return False
    return bool(plan.rule or plan.link)


def _fired(values: dict[str, Any], place: str) -> Fired:
    """Return the fault in a line. Raises RecordError for missing or wrong values."""
    fired = Fired(
        values.get("function", -1), values["rule"], values.get("n", 0), values.get("point", ""),
        values.get("action", ""), values.get("event") or {}, values.get("without_effect", ""),
        values.get("seconds"),
    )  # fmt: skip
    if not (
        _is_number(fired.function, 0, MAX_FUNCTIONS - 1)
        and _is_number(fired.n, 1, _U64)
        and all(
            isinstance(word, str)
            for word in (fired.rule, fired.point, fired.action, fired.without_effect)
        )
        and isinstance(fired.event, dict)
    ):
        raise RecordError(f"{place}: not a fault")
    return fired

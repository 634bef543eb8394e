"""Makes random rules, one function for each kind of fault; a rule is a plan's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from emu.device.faults.parser import from_table
from emu.device.faults.plan import Plan
from emu.instruments.fuzz.grammar import SEGMENT, FaultTarget, Leaf, key_of
from emu.instruments.fuzz.seen import Culprits, Seen
from emu.instruments.fuzz.values import Dictionary, choose
from emu.instruments.fuzz.workloads import WORKLOADS
from layouts.enums.cmd import Status
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import EventType

Table = dict[str, Any]

_MAX_FIELDS = 3
_FIRST_EVENTS = 60
_LATE_MS = (1, 20, 300)
_MAX_PAGES = 1000
_DATA_BYTES = (16, 32, 64, 256)
_VECTORS = 8
_MAX_TRIES = 20
_MAX_STEPS = 4
_APART = (0, 1, 1, 2, 5, 20)
"""Number of events between two steps of a sequence."""
_MOMENTS = ("cmd.done", "doorbell", "cqe", "eqe")
"""Points at which a rule without other conditions can fire."""

LASTING: Final = frozenset(
    {"registers", "health", "gone", "restart", "capabilities", "temperature"}
)
"""Actions whose effect persists after the plan is cleared, until a reset."""
_LASTING_WHEN_LIVE = 0.1
"""Fraction of such rules kept for live workloads."""


class Maker:
    """Makes rules for :attr:`workload`, about the data that the driver reads during it."""

    def __init__(self, targets: Sequence[FaultTarget], random: Random) -> None:
        self.dictionary = Dictionary()
        self.culprits = Culprits()
        self.workload = ""
        self._random = random
        self._seen = Seen()
        self._by_family: dict[str, list[FaultTarget]] = {}
        for target in targets:
            self._by_family.setdefault(target.family, []).append(target)
        self._kinds: Sequence[tuple[int, Callable[[], Table | None]]] = (
            (22, lambda: self._corrupt("output")),
            (18, lambda: self._corrupt("capability")),
            (10, lambda: self._corrupt("register")),
            (6, lambda: self._corrupt("event")),
            (12, lambda: self._corrupt("completion")),
            (2, lambda: self._corrupt("read")),
            (7, self._refused),
            (3, self._replaced),
            (14, self._invented_event),
            (3, self._reordered),
            (3, self._segment),
            (2, self._device),
        )

    def census(self) -> Plan:
        """Return a plan whose rules never fire and count the events of each target."""
        every = [target for family in self._by_family.values() for target in family]
        about = [(target.point, dict(target.match)) for target in every]
        about += [(point, {}) for point in _MOMENTS]
        rules = [
            {"name": f"rule-{at}", "point": point, "match": match}
            | ({"action": "interrupt", "vector": 0, "probability": 0.0})
            for at, (point, match) in enumerate(about, 1)
        ]
        return from_table({"rule": rules})

    def add_census(self, workload: str, rules: Sequence[Table], met: Mapping[str, int]) -> None:
        """Record the counts of a census of ``workload``."""
        counts = {_key(rule): met.get(str(rule["name"]), 0) for rule in rules}
        self._seen.add_census(workload, counts)

    def rule(self) -> Table:
        """Return a new rule without a name.

        Up to 20 attempts are made to avoid rules that are likely to lose guests.
        """
        random = self._random
        weights = [weight for weight, _ in self._kinds]
        made: Table | None = None
        for _ in range(_MAX_TRIES):
            _, make = random.choices(self._kinds, weights)[0]
            made = make() or made
            if made is not None and not self.avoids(made):
                break
        made = made or self._refused()
        return made | self.when(made)

    def sequence(self) -> list[Table]:
        """Return two to four consecutive events and device states, as rules without names."""
        random = self._random
        point = self._frequent_point()
        events = self._seen.events(self.workload, _key(point)) or _FIRST_EVENTS
        at = max(1, round(events * random.random() ** 0.5))
        steps: list[Table] = []
        for _ in range(random.randint(2, _MAX_STEPS)):
            step = random.choice([self._invented_event, self._device, self._segment])()
            step.pop("match", None)
            steps.append({**step, **point, "index": [at]})
            at += random.choice(_APART)
        return steps

    def avoids(self, rule: Table) -> bool:
        """Return whether to skip a rule, by chance: similar ones lost guests.

        In a live workload, 90 % of the rules with a lasting effect are skipped.
        """
        work = WORKLOADS.get(self.workload)
        if work is not None and work.is_live and rule["action"] in LASTING:
            return self._random.random() >= _LASTING_WHEN_LIVE
        return self._random.random() >= self.culprits.chance(rule)

    def note(self, rule: Mapping[str, Any], *, has_fired: bool) -> None:
        """Record whether a rule fired."""
        self._seen.note(_key(rule), has_fired=has_fired)

    def value(self, leaf: Leaf) -> int:
        """Return a value for a number that the driver reads."""
        return choose(self._random, leaf.name, leaf.width, self.dictionary)

    def target(self, family: str) -> FaultTarget | None:
        """Return a random target of a family; None if the workload has none of its events."""
        family_targets = self._by_family[family]
        weights = [self._seen.weight(self.workload, one.key) for one in family_targets]
        return self._random.choices(family_targets, weights)[0] if any(weights) else None

    def leaves_of(self, rule: Mapping[str, Any]) -> Sequence[Leaf]:
        """Return the numbers that a generated rule can set; empty for actions that set none."""
        if rule["action"] == "registers":
            return SEGMENT
        is_event = rule["action"] == "event"  # it sets fields of its own event, at any point
        about = {"point": "eqe", "match": {"type": rule["event"]}} if is_event else rule
        key = _key(about)
        for family_targets in self._by_family.values():
            for target in family_targets:
                if target.key == key and "set" in rule:
                    return target.leaves
        return ()

    def when(self, rule: Mapping[str, Any]) -> Table:
        """Return the keys of a rule that say when it fires: always, once, at one event, by chance.

        A rule without a match at a frequent point fires at one event, preferably a late one.
        """
        random = self._random
        events = self._seen.events(self.workload, _key(rule))
        if not rule.get("match") and rule["point"] in _MOMENTS:
            # Prefer later events: more of the driver's state exists then.
            return {"index": [max(1, round((events or _FIRST_EVENTS) * random.random() ** 0.5))]}
        draw = random.random()
        if draw < 0.5 or events == 1:
            return {}
        if draw < 0.7:
            return {"times": 1}
        if draw < 0.95:
            return {"index": [random.randint(1, events or 5)]}
        return {"probability": float(random.choice([10, 50]))}

    def _corrupt(self, family: str) -> Table | None:
        """Return a rule that sets one to three numbers of a structure; None without such events."""
        target = self.target(family)
        if target is None or not target.leaves:
            return None
        count = self._random.randint(1, min(_MAX_FIELDS, len(target.leaves)))
        chosen = self._random.sample(target.leaves, count)
        values = {leaf.name: self.value(leaf) for leaf in chosen}
        rule = _table(target, "corrupt", set=values)
        op_mod = rule["match"].get("op_mod")
        if op_mod is not None and self._random.random() < 0.7:
            # The driver asks for the current and for the maximum capabilities.
            rule["match"]["op_mod"] = [op_mod & ~1, op_mod | 1]
        return rule

    def _refused(self) -> Table:
        """Return a rule that fails a command with a random status, or a work request."""
        done = self.target("completion") if self._random.random() < 0.2 else None
        if done is not None:
            return _table(done, "fail", syndrome=self._random.choice(list(CqeSyndrome)).name)
        point = self._random.choice(["cmd", "cmd.done"])
        status = self._random.choice(list(Status)).name
        return _table(self._output(), "fail", status=status) | {"point": point}

    def _replaced(self) -> Table:
        """Return a rule that replaces a command's output by repeated bytes; the status is 0."""
        random = self._random
        data = random.choice([b"\0", b"\xff", random.randbytes(1)]) * random.choice(_DATA_BYTES)
        return _table(self._output(), "replace", data=(bytes(8) + data).hex())

    def _invented_event(self) -> Table:
        """Return a rule that injects an event without a cause."""
        random = self._random
        about = random.choice(self._by_family["event"])
        kind = EventType[dict(about.match)["type"]].name
        rule = {**self._frequent_point(), "action": "event", "event": kind}
        rule["sub_type"] = random.choice([0, 0, 0, 1, 2, random.randint(0, 255)])
        if about.leaves and random.random() < 0.8:
            limit = random.choice([1, 2, len(about.leaves)])
            chosen = random.sample(about.leaves, min(limit, len(about.leaves)))
            return rule | {"set": {leaf.name: self.value(leaf) for leaf in chosen}}
        return rule | {"data": random.randbytes(28).hex()}

    def _reordered(self) -> Table | None:
        """Return a rule that duplicates, delays, drops or reorders an event or completion.

        Return None if the workload has none. Events are reordered instead of dropped: the driver
        waits at least 60 s for a dropped one.
        """
        random = self._random
        family = random.choice(["event", "completion"])
        target = self.target(family)
        if target is None:
            return None
        action = random.choice(["duplicate", "delay", "drop", "duplicate"])
        if action == "drop" and family == "event":
            # The driver waits at least 60 s for a dropped event.
            action = "reorder"
        more = {"ms": random.choice(_LATE_MS)} if action == "delay" else {}
        return _table(target, action, **more)

    def _segment(self) -> Table:
        """Return a rule that changes a field of the initialization segment."""
        leaf = self._random.choice(SEGMENT)
        point = self._random.choice([{"point": "load"}, self._frequent_point()])
        return {**point, "action": "registers", "set": {leaf.name: self.value(leaf)}}

    def _device(self) -> Table:
        """Return a rule about the whole device: health, link, pages, interrupts, a restart."""
        random = self._random
        more: Table = random.choice(
            [
                {"action": "health", "syndrome": random.randint(0, 255), "fatal": True},
                {"action": "link", "ms": random.choice(_LATE_MS)},
                {"action": "pages", "count": random.randint(-_MAX_PAGES, _MAX_PAGES)},
                {"action": "interrupt", "vector": random.randrange(_VECTORS), "count": 10},
                {"action": "restart", "ms": random.choice(_LATE_MS)},
            ]
        )
        return {**self._frequent_point(), **more}

    def _frequent_point(self) -> Table:
        """Return a rule's point and match at which the driver arrives during the workload."""
        if self._random.random() < 0.5:
            counts = [self._seen.events(self.workload, point) or 0 for point in _MOMENTS]
            point = self._random.choices(_MOMENTS, counts)[0] if any(counts) else "cmd.done"
            return {"point": point}
        return {"point": "cmd.done", "match": {"op": dict(self._output().match)["op"]}}

    def _output(self) -> FaultTarget:
        return self.target("output") or self._by_family["output"][0]


def _key(rule: Mapping[str, Any]) -> str:
    return key_of(str(rule["point"]), rule.get("match", {}))


def _table(target: FaultTarget, action: str, **more: object) -> Table:
    return {"point": target.point, "action": action, "match": dict(target.match), **more}

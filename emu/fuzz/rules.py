"""Rules that are made up: for each kind of thing that can go wrong, a table as in a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from emu.fuzz.grammar import SEGMENT, Leaf, Target, key_of
from emu.fuzz.values import Dictionary, choose
from layouts.enums import CqeSyndrome, EventType, Status

Table = dict[str, Any]

_MOST_FIELDS = 3
_FIRST_EVENTS = 60
_LATE_MS = (1, 20, 300)
_MOST_PAGES = 1000
_DATA_BYTES = (16, 32, 64, 256)
_VECTORS = 8
_RARELY_SEEN = 3


class Maker:
    """Makes rules; what has fired is chosen more often than what never does."""

    def __init__(self, targets: Sequence[Target], random: Random) -> None:
        self.dictionary = Dictionary()
        self._random = random
        self._by_family: dict[str, list[Target]] = {}
        for target in targets:
            self._by_family.setdefault(target.family, []).append(target)
        self._tried: Counter[str] = Counter()
        self._fired: Counter[str] = Counter()
        self._kinds: Sequence[tuple[int, Callable[[], Table]]] = (
            (26, lambda: self._corrupt("output")),
            (16, lambda: self._corrupt("capability")),
            (8, lambda: self._corrupt("register")),
            (8, lambda: self._corrupt("event")),
            (12, lambda: self._corrupt("completion")),
            (3, lambda: self._corrupt("read")),
            (8, self._refused),
            (3, self._replaced),
            (9, self._invented_event),
            (4, self._moved),
            (3, self._segment),
            (3, self._device),
        )

    def rule(self) -> Table:
        """A new rule, without a name."""
        random = self._random
        weights = [weight for weight, _ in self._kinds]
        _, make = random.choices(self._kinds, weights)[0]
        return make() | self.when()

    def note(self, rule: Mapping[str, Any], *, has_fired: bool) -> None:
        """What became of a rule."""
        key = key_of(str(rule["point"]), rule.get("match", {}))
        self._tried[key] += 1
        self._fired[key] += has_fired

    def value(self, leaf: Leaf) -> int:
        """A value for a number of the driver's input."""
        return choose(self._random, leaf.name, leaf.width, self.dictionary)

    def target(self, family: str) -> Target:
        """One of a family, the more likely the more often rules about it have fired."""
        found = self._by_family[family]
        weights = [
            (_RARELY_SEEN + self._fired[one.key]) / (_RARELY_SEEN + self._tried[one.key])
            for one in found
        ]
        return self._random.choices(found, [weight**2 for weight in weights])[0]

    def leaves_of(self, rule: Mapping[str, Any]) -> Sequence[Leaf]:
        """What a rule of ours can set; nothing for an action that sets nothing."""
        if rule["action"] == "registers":
            return SEGMENT
        key = key_of(str(rule["point"]), rule.get("match", {}))
        for found in self._by_family.values():
            for target in found:
                if target.key == key and "set" in rule:
                    return target.leaves
        return ()

    def when(self) -> Table:
        """When a rule fires: each time, once, seldom, only at one of the first events."""
        random = self._random
        draw = random.random()
        if draw < 0.4:
            return {}
        if draw < 0.6:
            return {"times": 1}
        if draw < 0.8:
            return {"index": [random.randint(1, 5)]}
        if draw < 0.9:
            return {"times": 1, "space": random.randint(1, _FIRST_EVENTS)}
        return {"probability": float(random.choice([1, 10, 50]))}

    def _corrupt(self, family: str) -> Table:
        target = self.target(family)
        if not target.leaves:
            return self._dropped(target)
        count = self._random.randint(1, min(_MOST_FIELDS, len(target.leaves)))
        chosen = self._random.sample(target.leaves, count)
        values = {leaf.name: self.value(leaf) for leaf in chosen}
        return _table(target, "corrupt", set=values)

    def _refused(self) -> Table:
        """A command, or a work request, ends in error."""
        if self._random.random() < 0.2:
            target = self.target("completion")
            return _table(target, "fail", syndrome=self._random.choice(list(CqeSyndrome)).name)
        target = self.target("output")
        point = self._random.choice(["cmd", "cmd.done"])
        status = self._random.choice(list(Status)).name
        return _table(target, "fail", status=status) | {"point": point}

    def _replaced(self) -> Table:
        """An output's bytes, a status of 0 first."""
        random = self._random
        data = random.choice([b"\0", b"\xff", random.randbytes(1)]) * random.choice(_DATA_BYTES)
        return _table(self.target("output"), "replace", data=(bytes(8) + data).hex())

    def _invented_event(self) -> Table:
        """An event that nothing has caused, some time while the driver works."""
        random = self._random
        about = random.choice(self._by_family["event"])
        kind = EventType[dict(about.match)["type"]].name
        rule = {**self._moment(), "action": "event", "event": kind}
        rule["sub_type"] = random.choice([0, 0, 0, 1, 2, random.randint(0, 255)])
        if about.leaves and random.random() < 0.8:
            values = {leaf.name: self.value(leaf) for leaf in about.leaves}
            return rule | {"set": values}
        return rule | {"data": random.randbytes(28).hex()}

    def _moved(self) -> Table:
        """An event or completion that comes twice, late, in another order, or never."""
        random = self._random
        target = self.target(random.choice(["event", "completion"]))
        action = random.choice(["duplicate", "delay", "drop", "duplicate"])
        more = {"ms": random.choice(_LATE_MS)} if action == "delay" else {}
        return _table(target, action, **more)

    def _dropped(self, target: Target) -> Table:
        return _table(target, "drop")

    def _segment(self) -> Table:
        """A field of the initialization segment changes."""
        leaf = self._random.choice(SEGMENT)
        moment = self._random.choice([{"point": "load"}, self._moment()])
        return {**moment, "action": "registers", "set": {leaf.name: self.value(leaf)}}

    def _device(self) -> Table:
        """Something about the whole device: health, link, pages, interrupts, a restart."""
        random = self._random
        more: Table = random.choice(
            [
                {"action": "health", "syndrome": random.randint(0, 255), "fatal": True},
                {"action": "link", "ms": random.choice(_LATE_MS)},
                {"action": "pages", "count": random.randint(-_MOST_PAGES, _MOST_PAGES)},
                {"action": "interrupt", "vector": random.randrange(_VECTORS), "count": 10},
                {"action": "restart", "ms": random.choice(_LATE_MS)},
            ]
        )
        return {**self._moment(), **more}

    def _moment(self) -> Table:
        """A point that the driver comes by, to begin something there."""
        if self._random.random() < 0.7:
            op = dict(self.target("output").match)["op"]
            return {"point": "cmd.done", "match": {"op": op}}
        kind = self._random.choice(["send", "cq", "eq"])
        return {"point": "doorbell", "match": {"kind": kind}}


def _table(target: Target, action: str, **more: Any) -> Table:
    return {"point": target.point, "action": action, "match": dict(target.match), **more}

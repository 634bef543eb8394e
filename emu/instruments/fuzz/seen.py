"""What is known of rules: of which there are events, which have fired, which have cost a guest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_RARELY_TRIED = 3
_UNSEEN = 0.01
"""The weight of a target of which a workload has no events: with a fault there may be some."""
_AGAIN = 0.2
_MIN_CHANCE = 0.01
_ABOUT = ("op", "register_id", "type", "opcode", "offset", "kind")


class Seen:
    """How many events of each target a workload has, and how often rules about it have fired."""

    def __init__(self) -> None:
        self._events: dict[str, Mapping[str, int]] = {}
        self._tried: Counter[str] = Counter()
        self._fired: Counter[str] = Counter()

    def know(self, workload: str, events: Mapping[str, int]) -> None:
        """What a run of a workload without faults has told, by the targets' keys."""
        if any(events.values()):
            self._events[workload] = dict(events)

    def note(self, key: str, *, has_fired: bool) -> None:
        """What became of a rule."""
        self._tried[key] += 1
        self._fired[key] += has_fired

    def events(self, workload: str, key: str) -> int | None:
        """How many there are without faults; None when that is not known, or when none."""
        return self._events.get(workload, {}).get(key) or None

    def weight(self, workload: str, key: str) -> float:
        """How likely a target should be; 0 for one that the workload is known not to meet."""
        share = (_RARELY_TRIED + self._fired[key]) / (_RARELY_TRIED + self._tried[key])
        events = self._events.get(workload)
        if events is None or events.get(key):
            return share**2
        return share**2 * _UNSEEN if self._fired[key] or not self._tried[key] else 0.0


class Culprits:
    """What has cost guests: rules like it are made seldom, or nothing else would be found."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def blame(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """An input has cost a guest: by those of its rules that are known to, or by any."""
        known = [rule for rule in rules if any(self._times[mark] for mark in _marks(rule))]
        for rule in known or rules:
            self._times.update(_marks(rule))

    def chance(self, rule: Mapping[str, Any]) -> float:
        """With which probability a rule should be tried."""
        times = max((self._times[mark] for mark in _marks(rule)), default=0)
        return max(_MIN_CHANCE, _AGAIN**times)


def _marks(rule: Mapping[str, Any]) -> Iterator[str]:
    """What rules that do the same have in common."""
    if "event" in rule:
        yield f"event {rule['event']}"
        return
    match = rule.get("match", {})
    about = " ".join(f"{match[name]}" for name in _ABOUT if name in match)
    what = f"{rule['point']} {about} {rule['action']}"
    if "set" not in rule:
        yield what
    for name in rule.get("set", {}):
        yield f"{what} {name}"

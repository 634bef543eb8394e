"""Statistics about rules: which match events, fired, or lost guests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_RARELY_TRIED = 3
_UNSEEN = 0.01
"""Weight of a target without events in a workload; a fault may cause some."""
_AGAIN = 0.2
_MIN_CHANCE = 0.01
_ABOUT = ("op", "register_id", "type", "opcode", "offset", "kind")


class Seen:
    """Number of events per workload and target, and of firings per target."""

    def __init__(self) -> None:
        self._events: dict[str, Mapping[str, int]] = {}
        self._tried: Counter[str] = Counter()
        self._fired: Counter[str] = Counter()

    def add_census(self, workload: str, events: Mapping[str, int]) -> None:
        """Record a fault-free run's events by the targets' keys."""
        if any(events.values()):
            self._events[workload] = dict(events)

    def note(self, key: str, *, has_fired: bool) -> None:
        """Record whether a rule fired."""
        self._tried[key] += 1
        self._fired[key] += has_fired

    def events(self, workload: str, key: str) -> int | None:
        """Return the number of events without faults; None if it is unknown or 0."""
        return self._events.get(workload, {}).get(key) or None

    def weight(self, workload: str, key: str) -> float:
        """Return a target's weight, higher for targets whose rules fire often.

        Return 0 if the workload is known to have no such events and tried rules never fired.
        """
        rate = (_RARELY_TRIED + self._fired[key]) / (_RARELY_TRIED + self._tried[key])
        events = self._events.get(workload)
        if events is None or events.get(key):
            return rate**2
        return rate**2 * _UNSEEN if self._fired[key] or not self._tried[key] else 0.0


class Culprits:
    """Rules that lost guests; similar ones are made rarely, as they would hide other findings."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def blame(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Record a lost guest: count it for the input's known culprits, else for all its rules."""
        known = [rule for rule in rules if any(self._times[mark] for mark in _marks(rule))]
        for rule in known or rules:
            self._times.update(_marks(rule))

    def chance(self, rule: Mapping[str, Any]) -> float:
        """Return the probability with which a rule should be tried."""
        times = max((self._times[mark] for mark in _marks(rule)), default=0)
        return max(_MIN_CHANCE, _AGAIN**times)


def _marks(rule: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of a rule under which lost guests are counted; similar rules share some."""
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

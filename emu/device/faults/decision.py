"""Whether a rule fires, in the words of the kernel's Documentation/fault-injection.

It is a pure function of the plan's seed, the rule and the number of events that the rule has
matched, so neither a random generator's state nor time can make two runs differ.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from emu.device.faults.event import Event
from emu.device.faults.rule import Rule

_DICE = 1 << 64


def percent(seed: int, name: str, number: int) -> float:
    """The random number of one event, from 0 to 100 (exclusive)."""
    thrown = blake2b(f"{seed}/{name}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(thrown, "big") * 100 / _DICE


class RuleState:
    """A rule that is loaded at one function, with its counts."""

    __slots__ = ("_index", "fired", "is_armed", "met", "rule", "seed", "why", "without_effect")

    def __init__(self, rule: Rule, seed: int) -> None:
        self.rule = rule
        self.seed = seed
        self.met = 0
        """Matching events so far."""
        self.fired = 0
        self.without_effect = 0
        """How often it would have fired, but its action has changed nothing."""
        self.why = ""
        """Why the last time had none."""
        self.is_armed = False
        """Whether it is armed, by ``after``."""
        self._index = frozenset(rule.index) if rule.index is not None else None

    @property
    def is_spent(self) -> bool:
        """Whether it has fired as often as it may."""
        return 0 <= self.rule.times <= self.fired + self.without_effect

    def fires(self, event: Event[Any], *, is_settled: bool = False) -> bool:
        """Count the event if it matches, and decide; another rule's event is only counted."""
        rule = self.rule
        if rule.match and not event.agrees(rule.match):
            return False
        self.met += 1
        number = self.met
        if (
            number <= rule.space
            or (number - rule.space) % rule.interval
            or (self._index is not None and number not in self._index)
            or is_settled
            or self.is_spent
            or percent(self.seed, rule.name, number) >= rule.probability
        ):
            return False
        self.fired += 1
        return True

    def take_back(self, why: str) -> None:
        """What has fired has had no effect."""
        self.why = why
        self.fired -= 1
        self.without_effect += 1

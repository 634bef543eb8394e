"""The decision whether a rule fires, in the terms of the kernel's Documentation/fault-injection.

The decision is a pure function of the plan's seed, the rule and the number of events that the rule
has matched. Neither a random generator's state nor time can make two runs differ.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from emu.device.faults.event import Event
from emu.device.faults.rule import Rule

_RANDOM_RANGE = 1 << 64


def percent(seed: int, name: str, number: int) -> float:
    """Return the random number of one event, from 0 to 100 (exclusive).

    The number depends only on seed, rule name and event number, so a run can be repeated.
    """
    random = blake2b(f"{seed}/{name}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(random, "big") * 100 / _RANDOM_RANGE


class RuleState:
    """A rule that is loaded at one function, with its counts."""

    __slots__ = ("_index", "fired", "is_armed", "met", "rule", "seed", "why", "without_effect")

    def __init__(self, rule: Rule, seed: int) -> None:
        self.rule = rule
        self.seed = seed
        self.met = 0
        """Number of matching events."""
        self.fired = 0
        self.without_effect = 0
        """Number of times that it fired but its action changed nothing."""
        self.why = ""
        """Reason for the last action without effect."""
        self.is_armed = False
        """Whether it is armed, by ``after``."""
        self._index = frozenset(rule.index) if rule.index is not None else None

    @property
    def is_spent(self) -> bool:
        """Whether it has reached its maximum number of firings."""
        return 0 <= self.rule.times <= self.fired + self.without_effect

    def fires(self, event: Event[Any], *, is_settled: bool = False) -> bool:
        """Count the event if it matches, and return whether the rule fires.

        An event that does not match is not counted. A matching one is counted in ``met``, a firing
        also in ``fired``. With ``is_settled``, another rule has decided about the event: the rule
        only counts.
        """
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

    def count_without_effect(self, why: str) -> None:
        """Count a firing as without effect instead, and keep the reason.

        ``times`` still includes it.
        """
        self.why = why
        self.fired -= 1
        self.without_effect += 1

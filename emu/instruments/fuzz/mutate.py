"""Makes new plans, and plans mutated from others."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from emu.device.faults.parser import dump, from_table
from emu.device.faults.plan import Plan
from emu.instruments.fuzz.rules import Maker, Table

_MAX_RULES = 6
_NEW_RULES = (1, 1, 1, 2, 3)
_SEQUENCES = 0.15
"""Fraction of new inputs that are sequences of steps."""
_ID_DIGITS = 12
_U32 = 1 << 32


@dataclass(frozen=True)
class Input:
    """A fault plan and a workload."""

    plan: Plan
    workload: str

    @property
    def id(self) -> str:
        """The input's name in a corpus: a hash of its content."""
        text = f"{self.workload}\n{dump(self.plan)}"
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]

    @property
    def has_faults(self) -> bool:
        """Whether any rule can fire."""
        return any(rule.probability > 0 for rule in self.plan.rule)

    @property
    def rules(self) -> list[Table]:
        """The rules as tables."""
        return [rule.to_table() for rule in self.plan.rule]


class Mutator:
    """Makes inputs; all choices use one source of random numbers."""

    def __init__(self, maker: Maker, workloads: Sequence[str], random: Random) -> None:
        self._maker = maker
        self._workloads = workloads
        self._random = random
        self.costs: dict[str, float] = {}
        """Seconds that workloads take; slower ones are chosen less often."""
        self._changes: Sequence[tuple[int, Callable[[list[Table], Input], list[Table]]]] = (
            (30, self._with_another_value),
            (20, self._with_another_rule),
            (15, self._with_less),
            (15, self._spliced),
            (10, self._at_another_time),
            (10, self._with_another_field),
        )

    def fresh(self) -> Input:
        """Return a new input without a parent: one to three rules, or a sequence of steps."""
        self._maker.workload = self._workload()
        if self._random.random() < _SEQUENCES:
            return self._made(self._maker.sequence(), self._maker.workload)
        rules = [self._maker.rule() for _ in range(self._random.choice(_NEW_RULES))]
        return self._made(rules, self._maker.workload)

    def of(self, parent: Input, other: Input) -> Input:
        """Return a mutation of ``parent`` by one or two changes, perhaps with rules of ``other``.

        The workload changes in a tenth of the cases.
        """
        rules, workload = parent.rules, parent.workload
        if workload not in self._workloads or self._random.random() < 0.1:
            workload = self._workload()
        self._maker.workload = workload
        weights = [weight for weight, _ in self._changes]
        for _ in range(self._random.choice([1, 1, 2])):
            _, change = self._random.choices(self._changes, weights)[0]
            rules = change(copy.deepcopy(rules), other)
        return self._made(rules, workload)

    def _workload(self) -> str:
        weights = [self.costs.get(one, 1.0) ** -0.5 for one in self._workloads]
        return self._random.choices(self._workloads, weights)[0]

    def _made(self, rules: Sequence[Table], workload: str) -> Input:
        """Return the input of these rules, at most six, with names and a random seed.

        Rules to avoid are dropped; if none is left, a new rule is made.
        """
        rules = [rule for rule in rules if not self._maker.avoids(rule)][:_MAX_RULES]
        rules = rules or [self._maker.rule()]
        named = [{**rule, "name": f"rule-{at}"} for at, rule in enumerate(rules, 1)]
        seed = self._random.randrange(_U32)
        return Input(from_table({"seed": seed, "rule": named}), workload)

    def _with_another_rule(self, rules: list[Table], _other: Input) -> list[Table]:
        return [*rules, self._maker.rule()]

    def _with_less(self, rules: list[Table], _other: Input) -> list[Table]:
        """Remove a random rule; of a single rule, change a value instead."""
        if len(rules) > 1:
            del rules[self._random.randrange(len(rules))]
            return rules
        return self._with_another_value(rules, _other)

    def _with_another_value(self, rules: list[Table], _other: Input) -> list[Table]:
        """Replace the value of a random field of a rule; without a field, add a rule."""
        rule = self._random.choice(rules) if rules else {}
        known = {leaf.name: leaf for leaf in self._maker.leaves_of(rule)} if rule else {}
        names = [name for name in rule.get("set", {}) if name in known]
        if not names:
            return self._with_another_rule(rules, _other)
        name = self._random.choice(names)
        rule["set"][name] = self._maker.value(known[name])
        return rules

    def _with_another_field(self, rules: list[Table], _other: Input) -> list[Table]:
        """Set a random field of a random rule's structure; add a rule if it has no fields."""
        rule = self._random.choice(rules) if rules else {}
        leaves = self._maker.leaves_of(rule) if rule else ()
        if not leaves:
            return self._with_another_rule(rules, _other)
        leaf = self._random.choice(leaves)
        rule["set"][leaf.name] = self._maker.value(leaf)
        return rules

    def _at_another_time(self, rules: list[Table], _other: Input) -> list[Table]:
        """Replace the conditions on when a random rule fires."""
        if not rules:
            return self._with_another_rule(rules, _other)
        rule = self._random.choice(rules)
        for key in ("times", "index", "space", "probability"):
            rule.pop(key, None)
        rule.update(self._maker.when(rule))
        return rules

    def _spliced(self, rules: list[Table], other: Input) -> list[Table]:
        """Return first rules followed by last rules of ``other``; add a rule if it has none."""
        theirs: list[Any] = other.rules
        if not theirs:
            return self._with_another_rule(rules, other)
        keep = self._random.randint(0, len(rules))
        return [*rules[:keep], *theirs[self._random.randrange(len(theirs)) :]]

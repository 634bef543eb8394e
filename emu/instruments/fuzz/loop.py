"""The loop: an input is made, carried out, and kept when it made new blocks run.

The same seed and the same feedback give the same inputs, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from emu.device.faults.plan import Plan
from emu.instruments.fuzz.grammar import FaultTarget
from emu.instruments.fuzz.mutate import Input, Mutator
from emu.instruments.fuzz.rules import Maker
from emu.instruments.fuzz.schedule import Block, Schedule

_FRESH = 0.25
"""How many inputs are like no other, of those that the loop makes."""
_FIRST_FRESH = 20
_MIN_SECONDS = 0.1


@dataclass(frozen=True)
class Feedback:
    """What an input has brought about."""

    blocks: frozenset[Block]
    fired: frozenset[str] = frozenset()
    """The names of the rules that fired."""
    titles: tuple[str, ...] = ()
    """What went wrong in the guest, the first first; empty when nothing did."""
    log: str = ""
    """The kernel's log of this run, when something went wrong."""
    met: Mapping[str, int] = field(default_factory=dict)
    """How many events each rule was about, by its name; of a lost guest perhaps nothing."""
    is_lost: bool = False
    """Whether the guest has to be replaced."""
    is_stuck: bool = False
    """Whether it is because it did not come back in time."""
    seconds: float = 1.0
    """How long the driver has worked."""


class InputExecutor(Protocol):
    """Carries inputs out."""

    def run(self, one: Input) -> Feedback:
        """Carry one out, whatever state the one before has left."""


@dataclass(frozen=True)
class Step:
    """One turn of the loop."""

    input: Input
    parent: str
    feedback: Feedback
    new: Sequence[Block]


@dataclass
class FuzzLoop:
    """The state of a run."""

    targets: Sequence[FaultTarget]
    workloads: Sequence[str]
    seed: int | str
    schedule: Schedule = field(default_factory=Schedule)
    known: set[str] = field(default_factory=set)
    """Workloads of which earlier runs have told what the driver does without any fault."""
    runs: int = 0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self.maker = Maker(self.targets, self._random)
        self._mutator = Mutator(self.maker, self.workloads, self._random)
        # What the driver does without any fault is nothing new, and neither is its timers' work.
        # The last such run of a workload tells of which targets there are any events.
        census = self.maker.census()
        self._waiting = [
            Input(plan, workload)
            for workload in self.workloads
            for plan in ([] if workload in self.known else [Plan()]) + [census]
        ]

    def know(self, entry: Input, blocks: Iterable[Block]) -> None:
        """Take over an input of an earlier run in the same kernel."""
        self.schedule.add(entry, blocks)
        self.learn(entry)

    def try_later(self, entry: Input) -> None:
        """Carry out an input whose blocks are not known here, before any that is made up."""
        self._waiting.append(entry)

    def step(self, executor: InputExecutor) -> Step:
        """Make an input, carry it out, learn from it."""
        made, parent = self.take()
        return self.note(made, parent, executor.run(made))

    def note(self, made: Input, parent: str, feedback: Feedback) -> Step:
        """Learn from what an input has brought about. Not for two threads at once."""
        self.runs += 1
        new = self.schedule.note(feedback.blocks)
        if not made.has_faults:
            if made.plan.rule:
                self.known.add(made.workload)
                self._mutator.costs[made.workload] = max(feedback.seconds, _MIN_SECONDS)
                self.maker.know(made.workload, made.rules, feedback.met)
            return Step(made, parent, feedback, new)
        for rule in made.rules:
            self.maker.note(rule, has_fired=rule["name"] in feedback.fired)
        # The children of what a guest does not survive would all cost a guest.
        if new and not feedback.is_lost:
            self.schedule.add(made, new)
        if new or feedback.titles:
            self.learn(made)
        return Step(made, parent, feedback, new)

    def take(self) -> tuple[Input, str]:
        """The next input, and its parent's ID or nothing. Not for two threads at once."""
        if self._waiting:
            return self._waiting.pop(0), ""
        random = self._random
        if len(self.schedule) < _FIRST_FRESH or random.random() < _FRESH:
            return self._mutator.fresh(), ""
        parent = self.schedule.choose(random)
        return self._mutator.of(parent, self.schedule.choose(random)), parent.id

    def learn(self, entry: Input) -> None:
        """Remember the values that an input sets, for the same fields of others."""
        for rule in entry.rules:
            for name, value in rule.get("set", {}).items():
                self.maker.dictionary.learn(name, value)

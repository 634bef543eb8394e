"""The fuzzing loop: make an input, carry it out, keep it if it ran new blocks.

Equal seeds and equal feedback give equal sequences of inputs.
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
"""Fraction of inputs that are new instead of mutated."""
_FIRST_FRESH = 20
_MIN_SECONDS = 0.1


@dataclass(frozen=True)
class Feedback:
    """The result of an input."""

    blocks: frozenset[Block]
    fired: frozenset[str] = frozenset()
    """Names of the rules that fired."""
    titles: tuple[str, ...] = ()
    """Titles of the findings, the worst first; empty if there are none."""
    log: str = ""
    """The kernel's log of this run, if there are findings."""
    met: Mapping[str, int] = field(default_factory=dict)
    """Number of events that each rule matched, by name; may be empty for a lost guest."""
    is_lost: bool = False
    """Whether the guest has to be replaced."""
    is_stuck: bool = False
    """Whether the guest was lost because its driver hung."""
    seconds: float = 1.0
    """Seconds that the driver worked."""


class InputExecutor(Protocol):
    """Carries inputs out, in a guest or in a test."""

    def run(self, one: Input) -> Feedback:
        """Carry out an input, independent of the one before; return its feedback."""


@dataclass(frozen=True)
class Step:
    """One iteration of the loop."""

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
    """Workloads that already ran without faults."""
    runs: int = 0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self.maker = Maker(self.targets, self._random)
        self._mutator = Mutator(self.maker, self.workloads, self._random)
        # Runs without faults mark the driver's normal blocks, including timers, as known. The last
        # such run of a workload counts the events of each target.
        census = self.maker.census()
        self._waiting = [
            Input(plan, workload)
            for workload in self.workloads
            for plan in ([] if workload in self.known else [Plan()]) + [census]
        ]

    def add_known(self, entry: Input, blocks: Iterable[Block]) -> None:
        """Add an input of an earlier run in the same kernel."""
        self.schedule.add(entry, blocks)
        self.learn(entry)

    def try_later(self, entry: Input) -> None:
        """Queue an input with unknown blocks; it runs before any new input."""
        self._waiting.append(entry)

    def step(self, executor: InputExecutor) -> Step:
        """Make an input, carry it out, learn from its feedback."""
        made, parent = self.next_input()
        return self.note(made, parent, executor.run(made))

    def note(self, made: Input, parent: str, feedback: Feedback) -> Step:
        """Learn from an input's feedback and return it with the new blocks. Not thread-safe.

        An input with new blocks joins the schedule, unless it lost its guest. Without faults, only
        the census of events and the workload's duration are recorded.
        """
        self.runs += 1
        new = self.schedule.note(feedback.blocks)
        if not made.has_faults:
            if made.plan.rule:
                self.known.add(made.workload)
                self._mutator.costs[made.workload] = max(feedback.seconds, _MIN_SECONDS)
                self.maker.add_census(made.workload, made.rules, feedback.met)
            return Step(made, parent, feedback, new)
        for rule in made.rules:
            self.maker.note(rule, has_fired=rule["name"] in feedback.fired)
        # Children of an input that loses its guest would also lose theirs.
        if new and not feedback.is_lost:
            self.schedule.add(made, new)
        if new or feedback.titles:
            self.learn(made)
        return Step(made, parent, feedback, new)

    def next_input(self) -> tuple[Input, str]:
        """Return the next input, and its parent's ID or "". Not thread-safe.

        Queued inputs are first. Then a quarter of the inputs is new, and all while fewer than 20
        are kept; the rest are mutations.
        """
        if self._waiting:
            return self._waiting.pop(0), ""
        random = self._random
        if len(self.schedule) < _FIRST_FRESH or random.random() < _FRESH:
            return self._mutator.fresh(), ""
        parent = self.schedule.choose(random)
        return self._mutator.of(parent, self.schedule.choose(random)), parent.id

    def learn(self, entry: Input) -> None:
        """Store the values that an input sets, for use in the same fields of other inputs."""
        for rule in entry.rules:
            for name, value in rule.get("set", {}).items():
                self.maker.dictionary.learn(name, value)

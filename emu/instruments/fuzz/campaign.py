"""One run of the fuzzer: the loop, a guest, and the folder in which all is kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emu.device.faults.plan import Plan
from emu.device.faults.text import dump
from emu.guests import GuestOptions
from emu.host.user_error import UserError
from emu.host.userfiles import read_infile, write_parts
from emu.instruments.fuzz.corpus import About, Corpus, CorpusEntry, FindingAbout, blocks_of
from emu.instruments.fuzz.executor import GuestExecutor
from emu.instruments.fuzz.grammar import FaultTarget
from emu.instruments.fuzz.loop import Feedback, FuzzLoop, Step
from emu.instruments.fuzz.minimal import minimal
from emu.instruments.fuzz.mutate import Input
from emu.instruments.fuzz.plot import svg
from emu.instruments.fuzz.schedule import Schedule

_TOLD_SECONDS = 30.0
_MOST_PROGRESS = 256 << 20


@dataclass(frozen=True)
class Progress:
    """How far a run was after one of its inputs."""

    seconds: float
    """Of this run and those before it."""
    blocks: int
    """That ran in this run so far, in any input."""
    kept: int
    findings: int


class FuzzCampaign:
    """A run that goes on where the last one in the same folder has ended."""

    def __init__(
        self,
        corpus: Corpus,
        options: GuestOptions,
        workloads: Sequence[str],
        seed: int,
        targets: Sequence[FaultTarget],
        say: Callable[[str], None],
        plans: Sequence[Plan] = (),
    ) -> None:
        """``plans`` are carried out first, with each workload. Raises UserError for the folder."""
        self._corpus = corpus
        self._options = options
        self._say = say
        self._plans = plans
        self._progress = progress_of(corpus)
        before = self._progress[-1].seconds if self._progress else 0.0
        self._begun = time.monotonic() - before
        self._earlier = len(self._progress)
        self._told_at = 0.0
        self._targets = targets
        self._workloads = workloads
        self._seed = f"{seed}/{self._earlier}"
        self._loop: FuzzLoop | None = None
        self._kernel = ""
        self._executor = GuestExecutor(options)

    def run(self, seconds: float | None, runs: int | None) -> None:
        """Go on for so long, for so many inputs, or until interrupted. Raises UserError."""
        end = None if seconds is None else time.monotonic() + seconds
        try:
            self._kernel = kernel = self._executor.kernel
            self._loop = loop = self._begin(kernel)
            with (self._corpus.path / "progress.jsonl").open("a") as file:
                while (end is None or time.monotonic() < end) and (
                    runs is None or loop.runs < runs
                ):
                    self._note(loop, loop.step(self._executor), kernel)
                    file.write(json.dumps(vars(self._progress[-1])) + "\n")
                    file.flush()
        finally:
            self._executor.close()
            self._finish()

    def _begin(self, kernel: str) -> FuzzLoop:
        """The loop, with the inputs of earlier runs: of the same kernel known, others to try."""
        hits, known = self._corpus.hits(kernel)
        schedule = Schedule(hits)
        loop = FuzzLoop(self._targets, self._workloads, self._seed, schedule, known)
        for entry in self._corpus.entries():
            if entry.about.kernel == kernel:
                loop.know(entry.input, blocks_of(entry))
            else:
                loop.try_later(entry.input)
        for name in self._corpus.findings():
            failing = self._corpus.finding(name).input
            loop.learn(failing)
            loop.maker.culprits.blame(failing.rules)
        for plan in self._plans:
            for workload in self._workloads:
                loop.try_later(Input(plan, workload))
        return loop

    def _note(self, loop: FuzzLoop, step: Step, kernel: str) -> None:
        devices = list(self._options.devices)
        if step.new and step.input.has_faults:
            about = About(
                workload=step.input.workload, kernel=kernel, device=devices, parent=step.parent,
                new=list(step.new),
            )  # fmt: skip
            self._corpus.add(CorpusEntry(step.input, about))
        made = step.input
        if step.feedback.titles and self._note_finding(made, step.feedback):
            self._say(f"found: {step.feedback.titles[0]}")
            if not step.feedback.is_stuck:
                made = self._smaller(made, step.feedback.titles[0]) or made
        if step.feedback.is_lost:
            loop.maker.culprits.blame(made.rules)
        self._count(loop)

    def _note_finding(self, made: Input, feedback: Feedback) -> bool:
        """Keep what an input has brought up; whether nothing had before."""
        about = FindingAbout(
            title=feedback.titles[0], workload=made.workload, kernel=self._kernel,
            device=list(self._options.devices),
        )  # fmt: skip
        return self._corpus.note_finding(about, dump(made.plan), feedback.log)

    def _smaller(self, made: Input, title: str) -> Input | None:
        """The smallest part of an input that brings ``title`` up; None when it does not again.

        Other titles that come up on the way are kept, too.
        """

        def shows(one: Input) -> bool:
            feedback = self._executor.run(one)
            if feedback.titles:
                self._note_finding(one, feedback)
            return title in feedback.titles

        return minimal(made, shows)

    def _count(self, loop: FuzzLoop) -> None:
        seconds = time.monotonic() - self._begun
        self._progress.append(
            Progress(
                round(seconds, 2), len(loop.schedule.hits), len(loop.schedule),
                len(self._corpus.findings()),
            )
        )  # fmt: skip
        if seconds - self._told_at > _TOLD_SECONDS:
            self._told_at = seconds
            self._tell()

    def _tell(self) -> None:
        last = self._progress[-1]
        self._say(
            f"{last.seconds:.0f} s, {len(self._progress)} runs, {last.blocks} blocks,"
            f" {last.kept} inputs kept, {last.findings} findings, {self._executor.boots} guests,"
            f" {self._executor.stuck} times stuck"
        )

    def _finish(self) -> None:
        if self._loop is not None and len(self._progress) > self._earlier:
            self._tell()
            self._corpus.save_hits(self._kernel, self._loop.schedule.hits, self._loop.known)
            points = [(one.seconds, one.blocks) for one in self._progress]
            write_parts(self._corpus.path / "progress.svg", svg(points))


def progress_of(corpus: Corpus) -> list[Progress]:
    """The lines of a corpus' progress. Raises UserError."""
    path = corpus.path / "progress.jsonl"
    if not path.exists():
        return []
    result = []
    for number, line in enumerate(read_infile(path, _MOST_PROGRESS).splitlines(), 1):
        try:
            table = json.loads(line)
            result.append(
                Progress(
                    float(table["seconds"]), int(table["blocks"]), int(table["kept"]),
                    int(table["findings"]),
                )
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(f"{path}:{number}: no line of a run's progress") from None
    return result

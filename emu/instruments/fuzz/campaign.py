"""Runs the fuzzer: the loop, its guests, and the corpus that stores everything."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from emu.device.faults.parser import dump
from emu.device.faults.plan import Plan
from emu.guests import GuestOptions
from emu.host.counted import counted
from emu.host.user_error import UserError
from emu.host.userfiles import read_infile, write_parts
from emu.instruments.fuzz.corpus import About, Corpus, CorpusEntry, FindingAbout, blocks_of
from emu.instruments.fuzz.executor import GuestExecutor
from emu.instruments.fuzz.grammar import FaultTarget
from emu.instruments.fuzz.later import Later
from emu.instruments.fuzz.loop import Feedback, FuzzLoop, InputExecutor, Step
from emu.instruments.fuzz.minimize import minimize_input
from emu.instruments.fuzz.mutate import Input
from emu.instruments.fuzz.plot import svg
from emu.instruments.fuzz.schedule import Schedule
from emu.instruments.fuzz.watcher import NOBODY, FuzzWatcher

_REPORT_SECONDS = 30.0
REPRODUCTIONS = 3
"""Trials of a minimized input."""
_MAX_PROGRESS = 256 << 20


@dataclass(frozen=True)
class Progress:
    """Progress of a run after one input."""

    seconds: float
    """Seconds of this run and of earlier ones."""
    blocks: int
    """Blocks that ran in this run so far."""
    kept: int
    """Inputs of the run's kernel in the corpus, also of earlier runs."""
    findings: int


class FuzzCampaign:
    """A run that continues the last one in the same corpus."""

    def __init__(
        self,
        corpus: Corpus,
        options: GuestOptions,
        workloads: Sequence[str],
        seed: int,
        targets: Sequence[FaultTarget],
        say: Callable[[str], None],
        plans: Sequence[Plan] = (),
        jobs: int = 1,
        watcher: FuzzWatcher = NOBODY,
    ) -> None:
        """Take ``plans``, which run first with each workload, and ``jobs``, the number of guests.

        With several guests the order of inputs varies between runs. Raises UserError for the
        corpus.
        """
        self._corpus = corpus
        self._options = options
        self._say = say
        self._plans = plans
        self._progress = progress_of(corpus)
        before = self._progress[-1].seconds if self._progress else 0.0
        self._begun = time.monotonic() - before
        self._earlier = len(self._progress)
        self._reported_at = 0.0
        self._reported_runs = 0
        """Runs at the last report, also of earlier runs of the command."""
        self._kept: set[str] = set()
        """IDs of the kernel's inputs in the corpus; the schedule lacks those that lose a guest."""
        self._targets = targets
        self._workloads = workloads
        self._seed = f"{seed}/{self._earlier}"
        self._loop: FuzzLoop | None = None
        self._kernel = ""
        self._executors = [GuestExecutor(options, watcher=watcher) for _ in range(jobs)]
        self._lock = threading.RLock()
        """Protects the loop, the corpus and the progress; each guest has its thread."""
        self._is_ending = threading.Event()
        self._later = Later(jobs)
        """Titles waiting for more trials; with one guest these are made at once."""

    def run(self, seconds: float | None, runs: int | None) -> None:
        """Run for ``seconds``, for ``runs`` inputs, or until interrupted.

        Both limits apply only between inputs and minimizations. Guests are booted and stopped
        at the end. Inputs, findings and progress are stored in the corpus meanwhile; hit counts and
        the plot at the end. Raises UserError, and LabError if no guest boots.
        """
        end = None if seconds is None else time.monotonic() + seconds
        try:
            self._kernel = kernel = self._executors[0].kernel
            self._loop = loop = self._begin(kernel)
            if end is not None and time.monotonic() >= end:
                self._say("no input ran: the guest's boot took all of the time")

            def continues() -> bool:
                return (
                    not self._is_ending.is_set()
                    and (end is None or time.monotonic() < end)
                    and (runs is None or loop.runs < runs)
                )

            self._run(loop, continues)
        finally:
            for executor in self._executors:
                executor.close()
            self._finish()

    def _run(self, loop: FuzzLoop, continues: Callable[[], bool]) -> None:
        """Run all guests, each in a thread; a single guest runs in the calling thread.

        If one fails, the others end after their current input or minimization. The failure of the
        first guest in order that has failed is raised.
        """
        if len(self._executors) == 1:
            self._work(loop, self._executors[0], continues)
            return
        with ThreadPoolExecutor(len(self._executors)) as pool:
            works = [pool.submit(self._work, loop, one, continues) for one in self._executors]
            try:
                for work in works:
                    work.result()
            finally:
                self._is_ending.set()

    def _work(self, loop: FuzzLoop, executor: InputExecutor, continues: Callable[[], bool]) -> None:
        """Carry out inputs in one guest while ``continues`` holds; minimize waiting findings first.

        ``continues`` is asked only before each input or waiting minimization; neither is
        interrupted. An exception is raised, and the loops of the other guests end after their
        current input or minimization.
        """
        try:
            while True:
                with self._lock:
                    if not continues():
                        return
                    found = self._later.next_title()
                    if found is None:
                        made, parent = loop.next_input()
                if found is not None:
                    self._minimized(*found, executor)
                    with self._lock:
                        self._later.done()
                    continue
                feedback = executor.run(made)
                with self._lock:
                    step = loop.note(made, parent, feedback)
                self._record(loop, step, executor)
        except BaseException:
            self._is_ending.set()
            raise

    def _begin(self, kernel: str) -> FuzzLoop:
        """Return the loop, with the inputs and hit counts of earlier runs in the same kernel.

        Inputs of other kernels are tried again first, then the given plans with each workload.
        Rules of stored findings are made rarely. With several guests, findings without more trials
        are queued for them.
        """
        hits, known = self._corpus.hits(kernel)
        schedule = Schedule(hits)
        loop = FuzzLoop(self._targets, self._workloads, self._seed, schedule, known)
        for entry in self._corpus.entries():
            if entry.about.kernel == kernel:
                loop.add_known(entry.input, blocks_of(entry))
                self._kept.add(entry.input.id)
            else:
                loop.try_later(entry.input)
        for name in self._corpus.findings():
            failing = self._corpus.finding(name).input
            loop.learn(failing)
            loop.maker.culprits.blame(failing.rules)
            about = self._corpus.findings()[name]
            if len(self._executors) > 1 and about.kernel == kernel and not about.again:
                self._later.add(failing, about.title)
        for plan in self._plans:
            for workload in self._workloads:
                loop.try_later(Input(plan, workload))
        return loop

    def _record(self, loop: FuzzLoop, step: Step, executor: InputExecutor) -> None:
        """Store an input that ran new blocks, and its finding; count the progress.

        With one guest a new finding is minimized at once; with several it is queued. A stuck
        driver's finding is not minimized. The rules of an input that lost its guest are blamed.
        """
        made, titles = step.input, step.feedback.titles
        with self._lock:
            if step.new and made.has_faults:
                about = About(
                    workload=made.workload, kernel=self._kernel,
                    device=list(self._options.devices), parent=step.parent, new=list(step.new),
                )  # fmt: skip
                self._corpus.add(CorpusEntry(made, about))
                self._kept.add(made.id)
            is_new = bool(titles) and self._note_finding(made, step.feedback)
            if is_new:
                self._say(f"found: {titles[0]}")
        is_tried = is_new and not step.feedback.is_stuck
        if is_tried and len(self._executors) == 1:
            made = self._minimized(made, titles[0], executor) or made
        with self._lock:
            if is_tried and len(self._executors) > 1:
                self._later.add(made, titles[0])
            if step.feedback.is_lost:
                loop.maker.culprits.blame(made.rules)
            self._count(loop)

    def _note_finding(self, made: Input, feedback: Feedback, again: int = 0) -> bool:
        """Store the worst finding of an input; return whether its title is new.

        ``again`` is the number of trials that reproduced it.
        """
        about = FindingAbout(
            title=feedback.titles[0], workload=made.workload, kernel=self._kernel,
            device=list(self._options.devices), again=again,
        )  # fmt: skip
        with self._lock:
            return self._corpus.note_finding(about, dump(made.plan), feedback.log)

    def _minimized(self, made: Input, title: str, executor: InputExecutor) -> Input | None:
        """Minimize an input that shows ``title``; return None if it does not show it again.

        Findings with other titles are stored, too. The minimized input is tried
        :data:`REPRODUCTIONS` more times, and the number of successes is stored and reported.
        """

        def shows(one: Input) -> bool:
            feedback = executor.run(one)
            if feedback.titles:
                self._note_finding(one, feedback)
            return title in feedback.titles

        minimized = minimize_input(made, shows)
        if minimized is not None:
            trials = [executor.run(minimized) for _ in range(REPRODUCTIONS)]
            shown = [one for one in trials if title in one.titles]
            if shown and shown[-1].titles[0] == title:
                self._note_finding(minimized, shown[-1], len(shown))
            self._say(f"{title}: reproduced in {len(shown)} of {REPRODUCTIONS} more trials")
        return minimized

    def _count(self, loop: FuzzLoop) -> None:
        """Append the progress to progress.jsonl; report the first input, and then every 30 s."""
        seconds = time.monotonic() - self._begun
        last = Progress(
            round(seconds, 2), len(loop.schedule.hits), len(self._kept),
            len(self._corpus.findings()),
        )  # fmt: skip
        self._progress.append(last)
        with (self._corpus.path / "progress.jsonl").open("a") as file:
            file.write(json.dumps(vars(last)) + "\n")
        is_first = len(self._progress) == self._earlier + 1
        if is_first or seconds - self._reported_at > _REPORT_SECONDS:
            self._reported_at = seconds
            self._report()

    def _report(self) -> None:
        """Print the progress, once after each input."""
        if self._reported_runs == len(self._progress):
            return
        self._reported_runs = len(self._progress)
        last = self._progress[-1]
        self._say(
            f"{last.seconds:.0f} s, {counted(len(self._progress), 'run')},"
            f" {counted(last.blocks, 'block')}, {counted(last.kept, 'input')} kept,"
            f" {counted(last.findings, 'finding')},"
            f" {counted(sum(one.boots for one in self._executors), 'guest')},"
            f" {counted(sum(one.stuck for one in self._executors), 'time')} stuck"
        )

    def _finish(self) -> None:
        """Report the end; if an input ran, store hit counts and the plot.

        Name the titles still queued.
        """
        if left := len(self._later):
            self._say(f"{left} titles still need more trials: the next run makes them")
        if self._loop is not None and len(self._progress) > self._earlier:
            self._report()
            self._corpus.save_hits(self._kernel, self._loop.schedule.hits, self._loop.known)
            points = [(one.seconds, one.blocks) for one in self._progress]
            write_parts(self._corpus.path / "progress.svg", svg(points))


def progress_of(corpus: Corpus) -> list[Progress]:
    """Return the progress stored in a corpus; empty if it never ran.

    Raises UserError for an invalid line.
    """
    path = corpus.path / "progress.jsonl"
    if not path.exists():
        return []
    result = []
    for number, line in enumerate(read_infile(path, _MAX_PROGRESS).splitlines(), 1):
        try:
            table = json.loads(line)
            result.append(
                Progress(
                    float(table["seconds"]), int(table["blocks"]), int(table["kept"]),
                    int(table["findings"]),
                )
            )  # fmt: skip
        except (ArithmeticError, ValueError, KeyError, TypeError, RecursionError):
            raise UserError(f"{path}:{number}: not a line of a run's progress") from None
    return result

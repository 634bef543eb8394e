"""Computes the results of a set of failures, without I/O: rows, counts, JSON, cases for JUnit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emu.guests.conformance.results import Case
from emu.guests.conformance.results import Verdict as CaseVerdict
from emu.host.printable import printable
from emu.instruments.campaign.description import Description, RunResult
from emu.instruments.chaos.sets import ChaosFailure
from emu.instruments.chaos.verdicts import WORDS, ChaosVerdict, Judge, Judgement

_ORDER = list(ChaosVerdict)


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run with its verdict."""

    run: Description
    result: RunResult
    judged: Judgement


@dataclass(frozen=True, slots=True)
class Row:
    """The runs of one failure, at least one; the worst verdict is that of the failure."""

    failure: ChaosFailure
    runs: tuple[JudgedRun, ...]

    @property
    def worst(self) -> JudgedRun:
        """The first of the runs with the worst verdict."""
        return min(self.runs, key=lambda one: _ORDER.index(one.judged.verdict))

    @property
    def verdict(self) -> ChaosVerdict:
        """The verdict of the failure."""
        return self.worst.judged.verdict

    @property
    def words(self) -> str:
        """The verdict in words; of several runs with the number of those that have it."""
        same = sum(one.judged.verdict is self.verdict for one in self.runs)
        many = f" {same} of {len(self.runs)}" if len(self.runs) > 1 else ""
        return f"{WORDS[self.verdict]}{many}"


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """The results so far; ``bad`` are the verdicts that fail the command."""

    test: str
    seeds: Sequence[int]
    patience: float
    clean: RunResult
    rows: tuple[Row, ...]
    missing: int
    bad: Collection[ChaosVerdict]

    @property
    def is_good(self) -> bool:
        """Whether every run has a result, and no failure a bad verdict."""
        return not self.missing and not any(self.is_bad(row.verdict) for row in self.rows)

    def is_bad(self, verdict: ChaosVerdict) -> bool:
        """Return whether a verdict fails the command; a run without a result always does."""
        return verdict is ChaosVerdict.NO_RESULT or verdict in self.bad

    def counts(self) -> dict[ChaosVerdict, int]:
        """Return the number of failures by verdict, worst first, without zeros."""
        counts = Counter(row.verdict for row in self.rows)
        return {verdict: counts[verdict] for verdict in ChaosVerdict if counts[verdict]}


def report(
    test: str,
    failures: Sequence[ChaosFailure],
    runs: Mapping[str, Description],
    results: Mapping[str, RunResult],
    judge: Judge,
    *,
    patience: float,
    bad: Collection[ChaosVerdict],
) -> ChaosReport:
    """Return the report of the runs of ``failures``; those without a result are counted alone."""
    names = {one.name for one in failures}
    own = [run for run in runs.values() if run.plan_name in names]
    judged = [
        JudgedRun(run, results[run.name], judge.judged(results[run.name]))
        for run in own
        if run.name in results
    ]
    of = {
        one.name: tuple(run for run in judged if run.run.plan_name == one.name) for one in failures
    }
    rows = tuple(Row(one, of[one.name]) for one in failures if of[one.name])
    seeds = sorted({run.seed for run in own})
    missing = len(own) - len(judged)
    return ChaosReport(test, seeds, patience, judge.clean, rows, missing, frozenset(bad))


def summary(chaos: ChaosReport) -> dict[str, Any]:
    """Return the report as plain values for JSON; ``seconds`` and ``slower`` vary between runs."""
    observed = chaos.clean.observed
    return {
        "test": chaos.test,
        "seeds": list(chaos.seeds),
        "patience": round(chaos.patience, 1),
        "clean": {"seconds": observed.seconds if observed is not None else None},
        "missing": chaos.missing,
        "passed": chaos.is_good,
        "verdicts": {verdict.value: count for verdict, count in chaos.counts().items()},
        "failures": [
            {
                "name": row.failure.name,
                "about": row.failure.about,
                "verdict": row.verdict.value,
                "is_bad": chaos.is_bad(row.verdict),
                "runs": [_run(one) for one in row.runs],
            }
            for row in chaos.rows
        ],
    }


def _run(one: JudgedRun) -> dict[str, Any]:
    observed = one.result.observed
    return {
        "name": one.run.name,
        "seed": one.run.seed,
        "verdict": one.judged.verdict.value,
        "evidence": one.judged.evidence,
        "status": one.result.status,
        "fired": one.result.fired,
        "seconds": observed.seconds if observed is not None else None,
        "slower": None if one.judged.slower is None else round(one.judged.slower, 3),
        "threads": observed.threads.splitlines() if observed is not None else [],
        "waiting": list(observed.waiting) if observed is not None else [],
    }


def cases(chaos: ChaosReport) -> list[Case]:
    """Return a case for each run: FAIL for a bad verdict, SKIP for a failure not reached."""
    return [
        Case(
            f"chaos.{one.run.kernel}.{one.run.device}",
            f"{row.failure.name}.{one.run.seed}",
            _case_verdict(chaos, one.judged.verdict),
            _detail(row, one),
            one.result.seconds,
            output=printable(one.result.output) if chaos.is_bad(one.judged.verdict) else "",
        )
        for row in chaos.rows
        for one in row.runs
    ]


def failed_without_faults(run: Description, result: RunResult, why: str) -> Case:
    """Return the one case of a test that fails without faults, for the reason ``why``."""
    return Case(
        f"chaos.{run.kernel}.{run.device}",
        f"{run.plan_name}.{run.seed}",
        CaseVerdict.ERROR,
        f"the test fails without faults: {why}",
        result.seconds,
        output=printable(result.output),
    )


def _detail(row: Row, one: JudgedRun) -> str:
    """Return verdict, evidence and failure, then the threads of a test that hangs."""
    threads = one.result.observed.threads if one.result.observed is not None else ""
    head = f"{WORDS[one.judged.verdict]}: {one.judged.evidence}"
    return "\n".join(filter(None, (head, row.failure.about, threads.rstrip())))


def _case_verdict(chaos: ChaosReport, verdict: ChaosVerdict) -> CaseVerdict:
    if verdict is ChaosVerdict.NO_RESULT:
        return CaseVerdict.ERROR
    if chaos.is_bad(verdict):
        return CaseVerdict.FAIL
    return CaseVerdict.SKIP if verdict is ChaosVerdict.NOT_REACHED else CaseVerdict.PASS

"""Observations of a run, and the result that follows from them."""

from __future__ import annotations

from emu.device.faults.parser import load
from emu.device.faults.record import RecordError, read
from emu.guests.conformance.results import KSFT_SKIP
from emu.host.printable import one_line, printable
from emu.instruments.campaign.description import (
    LONGEST_OUTPUT,
    MAX_OTHERWISE,
    Description,
    Ended,
    RunFinding,
    RunResult,
)
from emu.instruments.campaign.expected import difference
from emu.instruments.campaign.observer import Observer
from emu.instruments.outcome import Finding, findings, merged, of_status


class RunTrial:
    """Observations collected during a run."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.release = ""
        self.output = bytearray()
        self.log = ""
        self.blocked: tuple[Finding, ...] | None = None
        """Tasks that were blocked at the command's time limit; None before it."""
        self.ends: list[Finding] = []
        self.why = ""
        self.has_panicked = False
        self.observer: Observer | None = None
        self.loaded_ns = 0
        """Time before the plan was loaded into a running guest (CLOCK_MONOTONIC)."""

    def take(self, kind: int, data: bytes) -> None:
        """Append output of the command; keep only the end."""
        if self.observer is not None:
            self.observer.take(kind, data)
        self.output += data
        del self.output[: -4 * LONGEST_OUTPUT]


def result_of(run: Description, trial: RunTrial, record: str) -> RunResult:
    """Return the run's result: all findings, the end, the texts made printable and cut.

    The record is kept only for a run that did not pass and was not skipped, or is observed.
    """
    wrong = None if trial.status is None else of_status(trial.status)
    logged = [*findings(trial.log, with_listed=trial.blocked is None), *(trial.blocked or ())]
    all_findings = merged(logged, [*trial.ends, *([wrong] if wrong else [])])
    ended = _ended(trial.status, bool(all_findings))
    is_good = ended in (Ended.PASSED, Ended.SKIPPED)
    fired = _count(record)
    return RunResult(
        name=run.name,
        ended=ended,
        status=trial.status,
        why=one_line(trial.why),
        release=one_line(trial.release, 100),
        output=printable(trial.output.decode(errors="replace")[-LONGEST_OUTPUT:]),
        rules=len(load(run.plan).rule) if run.plan else 0,
        fired=fired,
        otherwise=_otherwise(run, trial, ended, fired),
        findings=tuple(RunFinding.of(one) for one in all_findings),
        record="" if is_good and not run.is_observed else record,
        observed=None if trial.observer is None else trial.observer.observed(),
    )


def _otherwise(run: Description, trial: RunTrial, ended: Ended, fired: int) -> str | None:
    """Return the difference from the run's expectation; None without an expectation."""
    if run.expected is None:
        return None
    why = difference(run.expected, ended, trial.log, fired=fired, has_panicked=trial.has_panicked)
    return one_line(why)[:MAX_OTHERWISE]


def _ended(status: int | None, has_findings: bool) -> Ended:
    """Return FOUND with findings, else PASSED for 0, SKIPPED for 4, FAILED otherwise.

    A run without a status has not passed, as its command has not ended.
    """
    if has_findings:
        return Ended.FOUND
    by_status: dict[int | None, Ended] = {0: Ended.PASSED, KSFT_SKIP: Ended.SKIPPED}
    return by_status.get(status, Ended.FAILED)


def _count(record: str) -> int:
    """Return the number of fired faults in a record; 0 if it is empty or invalid."""
    try:
        return len(read(record).fired) if record else 0
    except RecordError:
        return 0

"""Computes a campaign's report from its results, without I/O.

JSON, JUnit and TAP reports of the same matrix can be compared. Guest texts have no addresses,
registers, processes and times, and findings are sorted. Only the durations differ, in one field.
The unmodified texts are in ``results/`` and on the page.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emu.guests.conformance.results import Case, Verdict
from emu.instruments.campaign.description import Description, Ended, RunFinding, RunResult
from emu.instruments.outcome import Kind
from emu.instruments.outcome.normal import normal_lines, normal_text

AXES = ("kernel", "device", "workload", "plan")
_VERDICTS = {
    Ended.PASSED: Verdict.PASS,
    Ended.SKIPPED: Verdict.SKIP,
    Ended.FAILED: Verdict.FAIL,
    Ended.FOUND: Verdict.FAIL,
    Ended.ERROR: Verdict.ERROR,
}
_GOOD = frozenset({Ended.PASSED, Ended.SKIPPED})
_SEVERITY = list(Kind)
TIMES = "seconds"
"""The one field of :func:`summary` that differs between two campaigns of the same matrix."""
_OTHER_TIMES = "ended_at"
"""A result's date, shown only on the page."""
_NOT_SHOWN = {"record", "findings", "observed", TIMES, _OTHER_TIMES}
"""Fields of a result that :func:`summary` shows elsewhere or not at all."""


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Runs with the same finding; ``first`` is the first run in matrix order."""

    kind: Kind
    title: str
    function: str
    runs: tuple[str, ...]
    kernels: tuple[str, ...]
    devices: tuple[str, ...]
    plans: tuple[str, ...]
    first: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """A campaign's runs, results and grouped findings."""

    name: str
    runs: Mapping[str, Description]
    results: Mapping[str, RunResult]
    groups: tuple[FindingGroup, ...]

    @property
    def missing(self) -> int:
        """Number of runs without a result."""
        return len(self.runs) - len(self.results)

    @property
    def is_good(self) -> bool:
        """Whether every run has a result and ended as :func:`is_good` requires."""
        return not self.missing and all(
            is_good(self.runs[name], one) for name, one in self.results.items()
        )

    def counts(self, axis: str = "") -> dict[str, Counter[Ended]]:
        """Return counts of the ends of runs by the names on one of :data:`AXES`, or under ``all``.

        Runs without a result make a name but count nowhere.
        """
        counts: dict[str, Counter[Ended]] = {}
        for name, run in self.runs.items():
            counter = counts.setdefault(value_of(run, axis) if axis else "all", Counter())
            if name in self.results:
                counter[self.results[name].ended] += 1
        return counts

    def crossed(self, down: str, across: str) -> dict[tuple[str, str], list[RunResult]]:
        """Return the results by the pair of their names on two of :data:`AXES`.

        Pairs without a result are missing.
        """
        results: dict[tuple[str, str], list[RunResult]] = defaultdict(list)
        for name, result in self.results.items():
            run = self.runs[name]
            results[value_of(run, down), value_of(run, across)].append(result)
        return results


def is_good(run: Description, result: RunResult) -> bool:
    """Return whether a run passed or was skipped, or ended as the matrix expects.

    The expectation of a plan is about the kernel's log alone.
    """
    return result.ended in (_expected_ends(run) or _GOOD)


def _expected_ends(run: Description) -> Sequence[Ended]:
    return () if run.expected is None else run.expected.ends


def cell(results: Sequence[RunResult]) -> tuple[Ended, str]:
    """Return the worst end of ``results`` (not empty), and a text: ends with counts, and notes.

    The ends are sorted, worst first: "found 1, failed 2 of 3".
    """
    counts = Counter(one.ended for one in results)
    ends = [end for end in reversed(Ended) if counts[end]]
    if len(results) == 1:
        text = ends[0].value
    else:
        text = ", ".join(f"{end.value} {counts[end]}" for end in ends) + f" of {len(results)}"
    notes = filter(None, (unfired(results), comparison(results)))
    return ends[0], ", ".join([text, *notes])


def unfired(results: Sequence[RunResult]) -> str:
    """Return "no fault fired" with a count if that is so in runs with rules; else an empty text."""
    count = sum(one.is_unfired for one in results)
    of_them = f" in {count} of {len(results)}" if len(results) > 1 else ""
    return f"no fault fired{of_them}" if count else ""


def comparison(results: Sequence[RunResult]) -> str:
    """Return "as expected" or "unexpected" with counts; empty if no result has an expectation."""
    compared = [one.otherwise for one in results if one.otherwise is not None]
    if not compared:
        return ""
    differing = sum(map(bool, compared))
    of_them = f" {differing} of {len(compared)}" if len(compared) > 1 else ""
    return f"unexpected{of_them}" if differing else "as expected"


def value_of(run: Description, axis: str) -> str:
    """Return a run's name on an axis."""
    return {
        "kernel": run.kernel,
        "device": run.device,
        "workload": run.workload,
        "plan": run.plan_name,
    }[axis]


def report(
    name: str, runs: Mapping[str, Description], results: Mapping[str, RunResult]
) -> CampaignReport:
    """Return the report of the results so far, with findings grouped by title, worst first."""
    ordered = {name: results[name] for name in runs if name in results}
    by_title: dict[str, list[tuple[Description, RunFinding]]] = defaultdict(list)
    for run_name, result in ordered.items():
        for finding in result.findings:
            by_title[finding.title].append((runs[run_name], finding))
    groups = sorted(
        (_group(title, members) for title, members in by_title.items()),
        key=lambda group: (_SEVERITY.index(group.kind), -len(group.runs), group.title),
    )
    return CampaignReport(name, runs, ordered, tuple(groups))


def _group(title: str, members: Sequence[tuple[Description, RunFinding]]) -> FindingGroup:
    first, finding = members[0]
    runs = [run for run, _ in members]
    kernels, devices, plans = (
        tuple(dict.fromkeys(value_of(run, axis) for run in runs))
        for axis in ("kernel", "device", "plan")
    )
    names = tuple(run.name for run in runs)
    return FindingGroup(
        finding.kind,
        title,
        finding.function,
        names,
        kernels,
        devices,
        plans,
        first.name,
        finding.lines,
    )


def cases(campaign: CampaignReport) -> list[Case]:
    """Return the results for JUnit and TAP, one group per kernel; skip runs without a result.

    A run that ends as the matrix expects passes, another fails. Only runs that neither passed nor
    were skipped have their output, normalized.
    """
    return [
        Case(
            f"{campaign.name}.{run.kernel}",
            name.partition(".")[2],
            _verdict(run, campaign.results[name]),
            _detail(run, campaign.results[name]),
            campaign.results[name].seconds,
            output=normal_text(campaign.results[name].output)
            if _is_bad(campaign.results[name])
            else "",
        )
        for name, run in campaign.runs.items()
        if name in campaign.results
    ]


def _is_bad(result: RunResult) -> bool:
    return result.ended not in _GOOD


def _verdict(run: Description, result: RunResult) -> Verdict:
    if is_good(run, result):
        return Verdict.SKIP if result.ended is Ended.SKIPPED else Verdict.PASS
    return Verdict.FAIL if result.ended in _GOOD else _VERDICTS[result.ended]


def _detail(run: Description, result: RunResult) -> str:
    """Return the normalized reason of a result: findings with lines, else status and error.

    A run that ended otherwise than the matrix expects has both ends in front.
    """
    wanted = " or ".join(_expected_ends(run))
    words = [] if is_good(run, result) or not wanted else [f"{result.ended.value}, not {wanted}"]
    words += [] if result.status in (None, 0) else [f"status {result.status}"]
    words += [normal_text(result.why)] if result.why else []
    findings = _ordered(result.findings)
    lines = [f"{one.kind}: {one.title}" for one in findings] or [": ".join(words)]
    return "\n".join([*lines, *(line for one in findings for line in normal_lines(one.lines))])


def _ordered(findings: Sequence[RunFinding]) -> list[RunFinding]:
    """Return a run's findings, worst first, as their order in a log varies between runs."""
    return sorted(findings, key=lambda one: (_SEVERITY.index(one.kind), one.title))


def summary(campaign: CampaignReport) -> dict[str, Any]:
    """Return the report as plain values for JSON.

    Texts are normalized and dates left out, so two campaigns of one matrix differ only in
    ``seconds``.
    """
    return {
        "campaign": campaign.name,
        "runs": len(campaign.runs),
        "missing": campaign.missing,
        "ended": {
            axis or "all": {
                name: {ended.value: count for ended, count in sorted(counter.items())}
                for name, counter in campaign.counts(axis).items()
            }
            for axis in ("", *AXES)
        },
        "findings": [
            {
                "kind": group.kind.value,
                "title": group.title,
                "function": group.function,
                "count": len(group.runs),
                "kernels": list(group.kernels),
                "devices": list(group.devices),
                "plans": list(group.plans),
                "runs": list(group.runs),
                "first": group.first,
                "lines": list(normal_lines(group.lines)),
            }
            for group in campaign.groups
        ],
        "results": [
            result.model_dump(mode="json", exclude=_NOT_SHOWN)
            | {
                "findings": [one.title for one in _ordered(result.findings)],
                "output": normal_text(result.output),
                "why": normal_text(result.why),
            }
            for result in campaign.results.values()
        ],
        TIMES: {name: result.seconds for name, result in campaign.results.items()},
    }

"""What a campaign has found: a pure function of its results, equal for equal ones.

JSON, JUnit and TAP of two campaigns of one matrix are compared: they have a guest's texts without
addresses, registers, processes and times, and findings in an order of their own. Only how long the
runs took differs, in one field. The whole texts are in ``results/`` and on the page.
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
"""The one part of :func:`summary` that differs between two campaigns of the same matrix."""
_OTHER_TIMES = "ended_at"
"""What a result has of the day, which is on the page only."""


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Runs with the same finding; ``first`` is the first of them, by the order of the matrix."""

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
    """A campaign's results."""

    name: str
    runs: Mapping[str, Description]
    results: Mapping[str, RunResult]
    groups: tuple[FindingGroup, ...]

    @property
    def missing(self) -> int:
        """Runs that have no result yet."""
        return len(self.runs) - len(self.results)

    @property
    def is_good(self) -> bool:
        """Whether every run is there and has passed, or was skipped."""
        return not self.missing and all(one.ended in _GOOD for one in self.results.values())

    def counts(self, axis: str = "") -> dict[str, Counter[Ended]]:
        """How runs have ended, by the names on one of :data:`AXES`, or all together."""
        counts: dict[str, Counter[Ended]] = {}
        for name, run in self.runs.items():
            counter = counts.setdefault(value_of(run, axis) if axis else "all", Counter())
            if name in self.results:
                counter[self.results[name].ended] += 1
        return counts

    def crossed(self, down: str, across: str) -> dict[tuple[str, str], list[RunResult]]:
        """The results by their names on two of :data:`AXES`."""
        results: dict[tuple[str, str], list[RunResult]] = defaultdict(list)
        for name, result in self.results.items():
            run = self.runs[name]
            results[value_of(run, down), value_of(run, across)].append(result)
        return results


def cell(results: Sequence[RunResult]) -> tuple[Ended, str]:
    """Return the worst end of some results, and words for all: how many, and as expected or not."""
    order = list(Ended)
    worst = max((one.ended for one in results), key=order.index)
    many = sum(one.ended is worst for one in results)
    of_them = f" {many} of {len(results)}" if len(results) > 1 else ""
    compared = comparison(results)
    return worst, f"{worst.value}{of_them}{f', {compared}' if compared else ''}"


def comparison(results: Sequence[RunResult]) -> str:
    """Return words for how results compare with what was expected; none if nobody has said."""
    told = [one.otherwise for one in results if one.otherwise is not None]
    if not told:
        return ""
    differing = sum(map(bool, told))
    of_them = f" {differing} of {len(told)}" if len(told) > 1 else ""
    return f"otherwise{of_them}" if differing else "as expected"


def value_of(run: Description, axis: str) -> str:
    """A run's name on an axis."""
    return {
        "kernel": run.kernel,
        "device": run.device,
        "workload": run.workload,
        "plan": run.plan_name,
    }[axis]


def report(
    name: str, runs: Mapping[str, Description], results: Mapping[str, RunResult]
) -> CampaignReport:
    """The report of what is there so far."""
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
    """The results for JUnit: a suite for each kernel."""
    return [
        Case(
            f"{campaign.name}.{run.kernel}",
            name.partition(".")[2],
            _VERDICTS[campaign.results[name].ended],
            _detail(campaign.results[name]),
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


def _detail(result: RunResult) -> str:
    words = [] if result.status in (None, 0) else [f"status {result.status}"]
    words += [normal_text(result.why)] if result.why else []
    findings = _ordered(result.findings)
    lines = [f"{one.kind}: {one.title}" for one in findings] or [": ".join(words)]
    return "\n".join([*lines, *(line for one in findings for line in normal_lines(one.lines))])


def _ordered(findings: Sequence[RunFinding]) -> list[RunFinding]:
    """Findings of one run, the worst first: their order in a log differs from run to run."""
    return sorted(findings, key=lambda one: (_SEVERITY.index(one.kind), one.title))


def summary(campaign: CampaignReport) -> dict[str, Any]:
    """All of it as plain values."""
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
            result.model_dump(mode="json", exclude={"record", "findings", TIMES, _OTHER_TIMES})
            | {
                "findings": [one.title for one in _ordered(result.findings)],
                "output": normal_text(result.output),
                "why": normal_text(result.why),
            }
            for result in campaign.results.values()
        ],
        TIMES: {name: result.seconds for name, result in campaign.results.items()},
    }

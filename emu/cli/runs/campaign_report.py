"""The results of a campaign: its tables, its report files, and the exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from rich.console import Console

from emu.cli.shared.control import console
from emu.cli.shared.tables import Rows
from emu.guests.conformance.results import junit, tap
from emu.guests.share import NOT_EXECUTABLE, NOT_FOUND
from emu.host.counted import counted
from emu.host.printable import one_line
from emu.instruments.campaign.description import Ended
from emu.instruments.campaign.page import page
from emu.instruments.campaign.report import (
    AXES,
    CampaignReport,
    cases,
    cell,
    comparison,
    report,
    summary,
    unfired,
)
from emu.instruments.campaign.store import Store, as_json

_DOWN, _ACROSS = "plan", "kernel"
"""Axes of the table of all results."""
_MAX_WHYS = 5
"""Maximum number of printed reasons of commands that were not found."""


def conclude(store: Store, names: Collection[str] | None = None) -> int:
    """Write the report of all runs, print that of ``names``, and return the exit status.

    The status is 0 if each of ``names`` (all by default) passed, was skipped or ended as the matrix
    expects, else 1.
    """
    results = store.results()
    outcome = report(store.name, store.runs, results)
    chosen = {name: run for name, run in store.runs.items() if names is None or name in names}
    shown = report(store.name, chosen, results)
    screen = console()
    _print(screen, shown)
    store.write("report.json", as_json(summary(outcome)))
    for name, form in (("report.xml", junit), ("report.tap", tap)):
        store.write(name, form(cases(outcome)))
    html = "".join(page(outcome, lambda name: (store.path / name).exists()))
    screen.print(f"{store.write('report.html', html)}", soft_wrap=True)
    return 0 if shown.is_good else 1


def _print(screen: Console, outcome: CampaignReport) -> None:
    """Print the campaign's tables: results by plan and kernel, counts by axis, findings."""
    for axis in AXES:
        counts = outcome.counts(axis)
        if axis == _DOWN:
            _show(screen, _crossed(outcome))
        if axis == _DOWN or (len(counts) == 1 and axis != AXES[0]):
            continue
        ends = [ended.value for ended in Ended]
        table = Rows(axis, *ends, numbers=ends)
        for name, counter in counts.items():
            table.add(name, *(str(counter[ended] or "") for ended in Ended))
        _show(screen, table)
    for line in _whys(outcome):
        screen.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)
    if outcome.groups:
        table = Rows("finding", "kind", "runs", "kernels", "plans", "record", numbers=("runs",))
        for group in outcome.groups:
            table.add(
                one_line(group.title, 120),
                group.kind.value,
                str(len(group.runs)),
                ", ".join(group.kernels),
                _few(group.plans),
                group.first,
            )
        _show(screen, table)
    missing = f", {outcome.missing} missing" if outcome.missing else ""
    runs = f"{len(outcome.results)} of {len(outcome.runs)} runs"
    results = [*outcome.results.values()]
    found = counted(len(outcome.groups), "finding")
    notes = filter(None, (unfired(results), comparison(results)))
    screen.print("; ".join([f"{runs}{missing}, {found}", *notes]))


def _whys(outcome: CampaignReport) -> list[str]:
    """Return why commands were not found or not executable, with the number of their runs."""
    whys = Counter(
        one.why for one in outcome.results.values() if one.status in (NOT_EXECUTABLE, NOT_FOUND)
    )
    shown = [(why, count) for why, count in whys.items() if why][:_MAX_WHYS]
    return [f"{counted(count, 'run')}: {one_line(why)}" for why, count in shown]


def _show(screen: Console, table: Rows) -> None:
    screen.print(table)
    screen.print()


def _crossed(outcome: CampaignReport) -> Rows:
    """Return the table of plans by kernels, with the outcomes of the runs."""
    rows, columns = outcome.counts(_DOWN), outcome.counts(_ACROSS)
    results = outcome.crossed(_DOWN, _ACROSS)
    table = Rows(_DOWN, *columns)
    for row in rows:
        cells = [results.get((row, column)) for column in columns]
        table.add(row, *(cell(one)[1] if one else "" for one in cells))
    return table


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

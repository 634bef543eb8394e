"""Renders a campaign's report as one self-contained HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from html import escape

from emu.host.counted import counted
from emu.instruments.campaign.description import Ended, RunResult
from emu.instruments.campaign.minimize import slug
from emu.instruments.campaign.report import AXES, CampaignReport, FindingGroup, cell, unfired
from emu.instruments.campaign.store import output_name

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; color: #222 }
table { border-collapse: collapse; margin-bottom: 1em }
th, td { padding: .15em .8em; border-bottom: 1px solid #ddd; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums }
td.found, td.failed, td.error { color: #a33; font-weight: 600 }
pre { background: #f6f6f6; padding: .6em; overflow-x: auto } summary { cursor: pointer }
"""
MAX_RUNS_SHOWN = 20
_DOWN, _ACROSS = "plan", "kernel"
"""The axes of the table of all results."""


def page(report: CampaignReport, has_file: Callable[[str], bool]) -> Iterator[str]:
    """Yield the page in chunks.

    ``has_file`` returns whether a file is beside the page; only then is it linked.
    """
    name = escape(report.name)
    yield f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{name}</title>'
    yield f"<style>{_STYLE}</style>\n<h1>Campaign {name}</h1>\n"
    runs = f"{len(report.results)} of {len(report.runs)} runs"
    results = [*report.results.values()]
    idle = f"; {text}" if (text := unfired(results)) else ""
    yield f"<p>{runs}, {counted(len(report.groups), 'finding')}{idle}{_when(results)}</p>\n"
    yield from _matrix(report, has_file)
    yield from _counts(report)
    if report.groups:
        yield "<h2>Findings</h2>\n"
    for group in report.groups:
        yield from _group(group, has_file)
    yield "<h2>Runs that did not pass</h2>\n<table><tr><th>run<th>ended<th>why</tr>\n"
    for result in report.results.values():
        if result.ended not in (Ended.PASSED, Ended.SKIPPED):
            yield _row(result)
    yield "</table>\n</html>\n"


def _when(results: Sequence[RunResult]) -> str:
    """Return first start, last end and total duration of the dated results; empty without any."""
    dated = [one for one in results if one.ended_at]
    if not dated:
        return ""
    first = min(one.ended_at - one.seconds for one in dated)
    last = max(one.ended_at for one in dated)
    took = timedelta(seconds=round(sum(one.seconds for one in dated)))
    return f"; {_day(first)} to {_day(last)} UTC, {took} of runs"


def _day(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M")


def _matrix(report: CampaignReport, has_file: Callable[[str], bool]) -> Iterator[str]:
    """Yield a table with a row per plan and a column per kernel: ends, counts, duration.

    Each cell links to the outputs of its runs.
    """
    rows, columns = report.counts(_DOWN), report.counts(_ACROSS)
    results = report.crossed(_DOWN, _ACROSS)
    yield f"<table><tr><th>{_DOWN}{''.join(f'<th>{escape(name)}' for name in columns)}</tr>\n"
    for row in rows:
        cells = "".join(_cell(results.get((row, column), ()), has_file) for column in columns)
        yield f"<tr><td>{escape(row)}{cells}</tr>\n"
    yield "</table>\n"


def _cell(results: Sequence[RunResult], has_file: Callable[[str], bool]) -> str:
    """Return a table cell: ends, counts, seconds, and links to at most 20 outputs.

    Return an empty cell without results.
    """
    if not results:
        return "<td>"
    worst, words = cell(results)
    text = f"{escape(words)}, {sum(one.seconds for one in results):.0f} s"
    if len(results) == 1:
        why = escape(results[0].otherwise or "")
        name = output_name(results[0].name)
        link = f'<a href="{escape(name)}">{text}</a>' if has_file(name) else text
        title = f' title="{why}"' if why else ""
        return f'<td class="{worst}"{title}>{link}'
    links = "".join(_output(one, has_file) for one in results[:MAX_RUNS_SHOWN])
    more = len(results) - MAX_RUNS_SHOWN
    end = f"<li>and {more} more" if more > 0 else ""
    return f'<td class="{worst}"><details><summary>{text}</summary><ul>{links}{end}</ul></details>'


def _output(result: RunResult, has_file: Callable[[str], bool]) -> str:
    """Return a list item of a cell: a run's end and a link to its output."""
    words = escape(cell([result])[1])
    why = f": {escape(result.otherwise)}" if result.otherwise else ""
    return f"<li>{escape(result.name)}: {words}{why}" + _link(
        output_name(result.name), "output", has_file
    )


def _counts(report: CampaignReport) -> Iterator[str]:
    heads = "".join(f"<th>{ended.value}" for ended in Ended)
    for axis in AXES:
        yield f"<table><tr><th>{axis}{heads}</tr>\n"
        for name, counter in report.counts(axis).items():
            yield f"<tr><td>{escape(name)}{_cells(counter)}</tr>\n"
        yield "</table>\n"


def _cells(counter: Counter[Ended]) -> str:
    return "".join(
        f'<td class="number{" " + ended.value if counter[ended] else ""}">{counter[ended] or ""}'
        for ended in Ended
    )


def _group(group: FindingGroup, has_file: Callable[[str], bool]) -> Iterator[str]:
    yield f"<details><summary><b>{escape(group.title)}</b> ({group.kind.value}): "
    yield f"{counted(len(group.runs), 'run')}, kernels {escape(', '.join(group.kernels))}, "
    yield f"plans {escape(', '.join(group.plans))}</summary>\n<ul>"
    for name in group.runs[:MAX_RUNS_SHOWN]:
        yield f"<li>{escape(name)}{_link(f'records/{name}.jsonl', 'record', has_file)}</li>\n"
    if len(group.runs) > MAX_RUNS_SHOWN:
        yield f"<li>and {len(group.runs) - MAX_RUNS_SHOWN} more</li>\n"
    yield f"</ul>{_link(f'minimized/{slug(group.title)}.toml', 'minimized plan', has_file)}"
    yield f"<pre>{escape(chr(10).join(group.lines))}</pre></details>\n"


def _link(path: str, words: str, has_file: Callable[[str], bool]) -> str:
    return f' <a href="{escape(path)}">{words}</a>' if has_file(path) else ""


def _row(result: RunResult) -> str:
    titles = "<br>".join(escape(one.title) for one in result.findings)
    status = "" if result.status in (None, 0) else f"status {result.status} "
    output = f"<details><summary>output</summary><pre>{escape(result.output)}</pre></details>"
    why = titles or escape(f"{status}{result.why}")
    return (
        f'<tr><td>{escape(result.name)}<td class="{result.ended.value}">{result.ended.value}'
        f"<td>{why}{output if result.output else ''}</tr>\n"
    )

"""Renders the results of a set of failures as one HTML page, with links to files beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from emu.host.counted import counted
from emu.instruments.campaign.store import output_name, record_name, trace_name
from emu.instruments.chaos.report import ChaosReport, JudgedRun, Row
from emu.instruments.chaos.verdicts import WORDS

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #222 }
body { margin: 1em auto; padding: 0 1em; max-width: 75em }
table { border-collapse: collapse }
th, td { padding: .3em .8em; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
td.bad { color: #a33; font-weight: 600 } td.number { text-align: right }
td small { color: #666; display: block }
td:nth-child(2), td.number, td.links { white-space: nowrap }
"""


def page(report: ChaosReport, has_file: Callable[[str], bool]) -> Iterator[str]:
    """Yield the page in chunks; ``has_file`` returns whether a file is beside it, to be linked."""
    test = escape(report.test)
    yield f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{test}</title>'
    yield f"<style>{_STYLE}</style>\n<h1>{test}</h1>\n<p>{_summary(report)}</p>\n"
    yield "<p>A failure's name opens the trace from its fault on: queues, and a time line.</p>\n"
    yield "<table><tr><th>failure<th>verdict<th>evidence<th>time<th>files</tr>\n"
    for row in report.rows:
        for number, one in enumerate(row.runs):
            yield _line(report, row, one, number, has_file)
    yield "</table>\n</html>\n"


def _summary(report: ChaosReport) -> str:
    """Return numbers of verdicts and missing runs, the clean run's time, and the time limit."""
    verdicts = ", ".join(f"{count} {WORDS[one]}" for one, count in report.counts().items())
    missing = f"; {counted(report.missing, 'run')} missing" if report.missing else ""
    observed = report.clean.observed
    clean = f"{observed.seconds:.1f} s without faults; " if observed is not None else ""
    return (
        f"{counted(len(report.rows), 'failure')}: {verdicts}{missing}.<br>"
        f"{clean}hangs after {report.patience:.0f} s."
    )


def _line(
    report: ChaosReport, row: Row, one: JudgedRun, number: int, has_file: Callable[[str], bool]
) -> str:
    """Return the table row of the ``number``-th run of a failure; the first names the failure."""
    name = one.run.name
    title = escape(row.failure.name) + (f", seed {one.run.seed}" if len(row.runs) > 1 else "")
    about = "" if number else f"<small>{escape(row.failure.about)}</small>"
    files = ((output_name(name), "output"), (record_name(name), "record"))
    links = " ".join(_link(path, words) for path, words in files if has_file(path))
    trace = trace_name(name, "html")
    seconds = f"{one.result.observed.seconds:.1f} s" if one.result.observed is not None else ""
    bad = ' class="bad"' if report.is_bad(one.judged.verdict) else ""
    return (
        f"<tr><td>{_link(trace, title) if has_file(trace) else title}{about}"
        f"<td{bad}>{escape(WORDS[one.judged.verdict])}<td>{escape(one.judged.evidence)}"
        f'<td class="number">{seconds}<td class="links">{links}</tr>\n'
    )


def _link(path: str, words: str) -> str:
    """Return a link with words that are HTML already."""
    return f'<a href="{escape(path)}">{words}</a>'

"""Output of a report as tables on a terminal, and as Markdown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from figures import Report, Row, Section, thinned
from machine import conditions
from rich.console import Console
from rich.table import Table

_STYLES = {"missed": "red", "not measured": "yellow"}
_NOTHING = "-"

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and no table.")
"""Option of the parts that are also separate programs."""


def show(sections: Sequence[Section], *, as_json: bool) -> None:
    """Print a part's results: tables, or the JSON that the whole benchmark reads."""
    if as_json:
        report = Report([conditions()], [thinned(section) for section in sections])
        click.echo(json.dumps(report.to_json()))
        return
    console = Console()
    for section in sections:
        print_section(console, section)


def run_part(part: str, **environ: str) -> list[Section]:
    """Run the separate program of a part, with these variables; return what it measured."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name(f"{part}.py"), "--json"],
        env=os.environ | environ, stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        setting = "".join(f" with {name}={value}" for name, value in environ.items())
        raise click.ClickException(f"{part}{setting}: status {done.returncode}")
    return list(Report.from_json(json.loads(done.stdout)).sections)


def print_section(console: Console, section: Section) -> None:
    """Print one table, with its remarks below."""
    table = Table(title=section.title, title_justify="left")
    header, *lines = cells(section)
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row, line in zip(section.rows, lines):
        table.add_row(*line, style=_STYLES.get(row.verdict))
    console.print(table)
    for remark in section.remarks:
        console.print(remark, highlight=False)
    console.print()


def markdown(report: Report) -> str:
    """Return the whole report in the form of the README."""
    parts = ["\n".join(report.conditions)]
    for section in report.sections:
        parts.append(f"**{section.title}**")
        parts.append(_markdown_table(cells(section)))
        parts += section.remarks
    return "\n\n".join(parts) + "\n"


def cells(section: Section) -> list[list[str]]:
    """Return a table as text: its header, then a line for each row, without empty columns."""
    compared = any(row.others for row in section.rows)
    judged = any(row.goal for row in section.rows)
    header = ["", "unit", section.ours]
    header += [section.theirs, "ratio"] if compared else []
    header += ["goal", ""] if judged else []
    return [header, *(_line(row, compared, judged) for row in section.rows)]


def _line(row: Row, compared: bool, judged: bool) -> list[str]:
    line = [row.name, row.unit, figure(row.value)]
    line += [figure(row.other), figure(row.ratio)] if compared else []
    line += [str(row.goal) if row.goal else "", row.verdict] if judged else []
    return line


def figure(value: float | None) -> str:
    """Return the value with three significant digits at most; a dash for None."""
    if value is None:
        return _NOTHING
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _markdown_table(lines: Sequence[Sequence[str]]) -> str:
    header, *rest = lines
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rest))

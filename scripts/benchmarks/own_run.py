"""Shared by the parts of the benchmark that can also be run on their own."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
from figures import Report, Section, thinned
from machine import conditions
from rich.console import Console
from tables import print_section

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and no table.")


def show(sections: Sequence[Section], *, as_json: bool) -> None:
    """Print what was measured: tables, or the JSON that the whole benchmark reads."""
    if as_json:
        report = Report([conditions()], [thinned(section) for section in sections])
        click.echo(json.dumps(report.to_json()))
        return
    console = Console()
    for section in sections:
        print_section(console, section)

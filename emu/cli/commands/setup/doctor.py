"""``mlx5emu doctor``: can the lab run here, and what is missing."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.text import Text

from emu.cli.shared.control import console as output
from emu.cli.shared.tables import Rows
from emu.guests.doctor import Check, State, examine
from emu.host.printable import one_line

_STYLES = {State.GOOD: "green", State.NOTE: "yellow", State.BAD: "bold red"}


@click.command()
def doctor() -> None:
    """Say what the guest lab has, what it lacks and how to get that.

    The status is 0 when guests can run here.
    """
    console = Console(emoji=False)
    with console.status("looking around; a first look at KVM boots a kernel"):
        checks = examine()
    output().print(_table(checks))
    remedies = [check.remedy for check in checks if check.state is State.BAD and check.remedy]
    for remedy in dict.fromkeys(remedies):
        console.print(f"to do: {remedy}", highlight=False, markup=False, soft_wrap=True)
    if any(check.state is State.BAD for check in checks):
        click.echo("guests cannot run here yet")
        sys.exit(1)
    click.echo("guests can run here")


def _table(checks: list[Check]) -> Rows:
    table = Rows("part", "state", "what was found")
    for check in checks:
        style = _STYLES[check.state]
        table.add(check.part, Text(check.state.value, style), one_line(check.result))
    return table

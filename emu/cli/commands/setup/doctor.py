"""``mlx5emu doctor``: checks whether guests can run on this host."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.text import Text

from emu.cli.shared.control import console as output
from emu.cli.shared.progress import watching, working
from emu.cli.shared.tables import Rows
from emu.compiled import building
from emu.guests.doctor import Check, State, examine
from emu.host.printable import one_line
from emu.version import COMPILED, code, code_line

_STYLES = {State.GOOD: "green", State.NOTE: "yellow", State.BAD: "bold red"}


@click.command(short_help="Check whether guests can run on this host.")
@click.option(
    "--compile",
    "is_build",
    is_flag=True,
    help="Compile the device code into the cache, which takes minutes; later runs use it.",
)
def doctor(is_build: bool) -> None:
    """Check the host for everything that guests need, and print how to install missing parts.

    The status is 0 if guests can run on this host.

    Example: mlx5emu doctor
    """
    if is_build:
        _compile()
        return
    with working("checking the host; the first check of KVM boots a kernel"):
        checks = examine()
    output().print(_table(checks))
    console = Console(emoji=False)
    remedies = [check.remedy for check in checks if check.state is State.BAD and check.remedy]
    for remedy in dict.fromkeys(remedies):
        console.print(f"to do: {remedy}", highlight=False, markup=False, soft_wrap=True)
    if any(check.state is State.BAD for check in checks):
        click.echo("guests cannot run here yet")
        sys.exit(1)
    click.echo("guests can run here")


def _compile() -> None:
    """Compile the device code unless this process runs it. Raises UserError if that fails."""
    if code() == COMPILED:
        click.echo(f"device code: {code_line()}")
        return
    with watching() as shown:
        shown("compiling the device code; this takes minutes", 0, 0)
        key = building.build(on_wait=lambda: shown("another process compiles", 0, 0))
    click.echo(f"device code: compiled ({key}), used from now on")


def _table(checks: list[Check]) -> Rows:
    table = Rows("part", "state", "what was found")
    for check in checks:
        style = _STYLES[check.state]
        table.add(check.part, Text(check.state.value, style), one_line(check.result))
    return table

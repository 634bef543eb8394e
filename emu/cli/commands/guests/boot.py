"""``mlx5emu boot``: a root shell on a guest's console, in this terminal."""

from __future__ import annotations

import sys

import click
import cloup

from emu.cli.options.guest import guest_options, to_options
from emu.cli.shared.progress import display
from emu.guests.guest.interactive import Boot
from emu.guests.options import Use


@cloup.command(short_help="Boot a guest with a root shell on its console.")
@guest_options(Use.BOOT)
@click.option("-v", "--verbose", is_flag=True, help="Show every message of the kernel.")
def boot(**choices: object) -> None:
    """Boot a guest with emulated functions and give a root shell on its console.

    The guest stops when the shell exits; Ctrl-A x stops it at once. Standard input must be a
    terminal: `mlx5emu run` runs commands without one.

    Example: mlx5emu boot --device connectx7
    """
    options = to_options(**choices)
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(
            "standard input is not a terminal, which the shell needs; without one use"
            " `mlx5emu run -- COMMAND`"
        )
    with Boot(options) as guest:
        with display() as (progress, on_wait):
            guest.prepare(progress, on_wait)
        guest.run()

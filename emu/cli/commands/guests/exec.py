"""``mlx5emu exec``: runs a command in a running guest."""

from __future__ import annotations

from typing import Any

import click

from emu.cli.runs.execute import command_options, execute


@click.command(
    short_help="Run a command in a running guest.",
    context_settings={"allow_interspersed_args": False},
)
@command_options
def command(**choices: Any) -> None:
    """Run COMMAND in the guest NAME (in a lab, LAB/GUEST), as root or as --user.

    COMMAND starts in the directory that the guest shares (`up --share`), else in root's home.

    COMMAND reads the standard input of `exec`; its output, errors and status are passed on. Its
    processes end with `exec`. With --detach they continue in the background, and `exec` prints the
    commands that show the output and end the processes.

    Example: mlx5emu exec dev -- ibv_devinfo -v
    """
    execute(**choices)

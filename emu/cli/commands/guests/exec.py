"""``mlx5emu exec``: a command in a guest that runs."""

from __future__ import annotations

from typing import Any

import click

from emu.cli.runs.execute import command_options, execute


@click.command(context_settings={"allow_interspersed_args": False})
@command_options
def command(**choices: Any) -> None:
    """Run COMMAND in the guest NAME (in a lab, LAB/GUEST), as root unless --user says otherwise.

    It has our standard input; output, errors and status are its own. What it has started ends when
    `exec` does, unless --detach starts it in the background; the commands that show its output and
    end it are printed then.
    """
    execute(**choices)

"""``mlx5emu qemu``: the QEMU that the lab uses, for QEMUs of the user's own."""

from __future__ import annotations

import click

from emu.cli.shared.progress import display
from emu.guests.machine import qemu


@click.command("qemu")
def command() -> None:
    """Print the path of a QEMU that speaks vfio-user; fetch one when there is none.

    It is the system's, if that is 10.1 or newer, or a script that runs the one in the cache, with
    its own libraries. For `mlx5emu serve`, and other tools: vng --qemu "$(mlx5emu qemu)".
    """
    with display() as (progress, on_wait):
        path = qemu.ensure(progress, on_wait)
    click.echo(qemu.program_path(path))

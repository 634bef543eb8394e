"""``mlx5emu qemu``: prints the path of the QEMU that guests use."""

from __future__ import annotations

import click

from emu.cli.shared.progress import display
from emu.guests.machine import qemu


@click.command("qemu", short_help="Print the path of a QEMU with vfio-user.")
def command() -> None:
    """Print the path of a QEMU that supports vfio-user; fetch one if none is installed.

    The path is that of the system's QEMU if its version is 10.1 or newer. Otherwise a script runs
    the QEMU in the cache with its own libraries. `mlx5emu serve` and other tools can use it.

    Example: vng --qemu "$(mlx5emu qemu)"
    """
    with display() as (progress, on_wait):
        path = qemu.ensure(progress, on_wait)
    click.echo(qemu.program_path(path))

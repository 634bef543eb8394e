"""``mlx5emu reboot``: a guest that runs boots again."""

from __future__ import annotations

import time

import click

from emu.cli.shared.names import complete_guest
from emu.cli.shared.progress import working
from emu.guests.named.attach import attached


@click.command()
@click.option("--hard", is_flag=True, help="Reset the machine: its kernel shuts nothing down.")
@click.argument("name", shell_complete=complete_guest)
def reboot(name: str, hard: bool) -> None:
    """Boot the guest NAME (in a lab, LAB/GUEST) again, and wait until it takes commands.

    Its kernel shuts the devices down first. Its disk stays, as do the adapter's plans and trace.
    So the guest boots from the start, and takes the time of `up --cold`: a saved boot, from which
    `up` goes on, has a disk that nothing has been written to. `down` and `up` are quicker.
    """
    begun = time.monotonic()
    with attached(name) as channel, working(f"{name} boots again"):
        channel.ask("reset" if hard else "reboot").wait()
    click.echo(f"{name} is up again after {time.monotonic() - begun:.1f} s")

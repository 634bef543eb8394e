"""``mlx5emu reboot``: reboots a running guest."""

from __future__ import annotations

import time

import click

from emu.cli.shared.names import complete_guest
from emu.cli.shared.progress import working
from emu.guests.errors import GuestError
from emu.guests.named import running
from emu.guests.named.attach import ENDED, attached, state_of


@click.command(short_help="Reboot a running guest.")
@click.option("--hard", is_flag=True, help="Reset the machine without a shutdown by the kernel.")
@click.argument("name", shell_complete=complete_guest)
def reboot(name: str, hard: bool) -> None:
    """Reboot the guest NAME (in a lab, LAB/GUEST), and wait until it accepts commands.

    The kernel shuts the devices down first. The guest's disk, the fault plans and the trace are
    kept; commands of a lab's file do not run again. The boot takes the time of `up --cold`: a saved
    boot fits only a new disk. `down` and `up` are faster, and give the guest a new disk.

    Example: mlx5emu reboot dev
    """
    entry, _ = running.resolve(name)
    begun = time.monotonic()
    try:
        with attached(name) as channel, working(f"rebooting {name}"):
            channel.ask("reset" if hard else "reboot").wait()
    except GuestError as error:
        if state_of(name) not in ENDED:
            raise
        dump = f"mlx5emu dump {name} FILE saves its memory"
        error.args = (f"{name}: {error}; {dump}, mlx5emu down {entry.name} ends it",)
        raise
    click.echo(f"{name} is up again after {time.monotonic() - begun:.1f} s")
    if entry.info.get("lab"):
        click.echo("the lab file's commands, such as addresses, did not run again")

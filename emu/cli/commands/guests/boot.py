"""``mlx5emu boot``: a shell in a guest, in this terminal."""

from __future__ import annotations

import click

from emu.cli.options.guest import guest_options, to_options
from emu.cli.shared.progress import display
from emu.guests.guest.interactive import Boot
from emu.guests.options import Use


@click.command()
@guest_options(Use.BOOT)
@click.option("-v", "--verbose", is_flag=True, help="Show all that the kernel says.")
def boot(**choices: object) -> None:
    """Boot a guest with emulated functions and give a root shell on its console.

    The guest ends with the shell; Ctrl-A x ends it at once.
    """
    options = to_options(**choices)
    with Boot(options) as guest:
        with display() as (progress, on_wait):
            guest.prepare(progress, on_wait)
        guest.run()

"""``mlx5emu dmesg``: the kernel's log of a guest that runs."""

from __future__ import annotations

import click

from emu.host.printable import printable
from emu.lab.named.attach import output_of


@click.command()
@click.argument("name")
def dmesg(name: str) -> None:
    """Show the kernel's log of the guest NAME (in a lab, LAB/GUEST)."""
    click.echo(printable(output_of(name, ["dmesg"]).decode(errors="replace")), nl=False)

"""``mlx5emu dump``: the memory of a guest that runs, in a file."""

from __future__ import annotations

from pathlib import Path

import click

from emu.cli.shared.files import NewFile
from emu.cli.shared.names import complete_guest
from emu.cli.shared.progress import working
from emu.guests.named.attach import attached

_NEW_FILE = NewFile(resolve_path=True)


@click.command()
@click.argument("name", shell_complete=complete_guest)
@click.argument("file", type=_NEW_FILE)
def dump(name: str, file: Path) -> None:
    """Write the memory of the guest NAME (in a lab, LAB/GUEST) into FILE, for crash and drgn.

    The guest stops meanwhile, and goes on. `run --dump FILE` and `up --dump FILE` do the same when
    the guest panics.
    """
    with attached(name) as channel, working(f"writing the memory of {name}"):
        channel.ask("dump", path=str(file)).wait()
    click.echo(f"{file} is written: {file.stat().st_size >> 20} MiB")

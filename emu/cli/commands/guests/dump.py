"""``mlx5emu dump``: writes the memory of a running guest to a file."""

from __future__ import annotations

from pathlib import Path

import click

from emu.cli.shared.files import NewFile
from emu.cli.shared.names import complete_guest
from emu.cli.shared.progress import working
from emu.guests.named.attach import attached
from emu.host.userfiles import why_not_replaceable

_NEW_FILE = NewFile(resolve_path=True)


@click.command(short_help="Write the memory of a guest to a file.")
@click.argument("name", shell_complete=complete_guest)
@click.argument("file", type=_NEW_FILE)
def dump(name: str, file: Path) -> None:
    """Write the memory of the guest NAME (in a lab, LAB/GUEST) to FILE, for crash and drgn.

    The guest is paused while the file is written. `run --dump FILE` and `up --dump FILE` do the
    same when the guest panics.

    Example: mlx5emu dump dev dev.core
    """
    if why := why_not_replaceable(file):
        raise click.BadParameter(why, param_hint="FILE")
    with attached(name) as channel, working(f"writing the memory of {name}"):
        channel.ask("dump", path=str(file)).wait()
    click.echo(f"wrote {file}: {file.stat().st_size >> 20} MiB")

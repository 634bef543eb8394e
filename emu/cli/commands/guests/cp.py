"""``mlx5emu cp``: copies files into a running guest, and out of it."""

from __future__ import annotations

from pathlib import Path

import click

from emu.cli.shared.notice import notice
from emu.cli.shared.params import WholeNumber
from emu.cli.shared.progress import working
from emu.guests.named.copying import DEFAULT_MAX_SIZE, copy_in, copy_out

max_size_option = click.option(
    "--max-size",
    type=WholeNumber(min=1),
    default=DEFAULT_MAX_SIZE >> 20,
    show_default=True,
    metavar="MIB",
    help="Limit of a copy out of a guest, in MiB; each file counts as at least 4 KiB.",
)


@click.command(short_help="Copy files into or out of a running guest.")
@click.argument("source")
@click.argument("target")
@max_size_option
def cp(source: str, target: str, max_size: int) -> None:
    """Copy a file or a directory: `cp FILE NAME:PATH` or `cp NAME:PATH FILE`.

    NAME is a guest (in a lab, LAB/GUEST). A PATH that does not begin with a slash is relative to
    root's home. If the target is a directory, the copy is placed in it. Owners are not kept; device
    nodes, pipes and sockets are left out.

    Example: mlx5emu cp dev:/etc/os-release .
    """
    (from_guest, from_path), (to_guest, to_path) = _parted(source), _parted(target)
    if bool(from_guest) == bool(to_guest):
        raise click.UsageError("exactly one of the two must be in a guest, as NAME:PATH")
    with working(f"copying {source} to {target}"):
        if to_guest:
            copy_in(to_guest, Path(from_path), to_path, notice)
        else:
            copy_out(from_guest, from_path, Path(to_path), notice, max_size << 20)


def _parted(location: str) -> tuple[str, str]:
    """Return a guest's name and a path in it; the name is empty for a path of the host.

    A location without a colon, or that begins with a dot or a slash, is a path of the host. An
    empty path in a guest is root's home.
    """
    name, colon, path = location.partition(":")
    if not colon or not name or name.startswith((".", "/")):
        return "", location
    return name, path or "."

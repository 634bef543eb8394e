"""``mlx5emu cp``: files into a guest that runs, and out of it."""

from __future__ import annotations

from pathlib import Path

import click

from emu.cli.shared.progress import working
from emu.guests.named.copying import DEFAULT_MAX_SIZE, copy_in, copy_out

max_size_option = click.option(
    "--max-size",
    type=click.IntRange(min=1),
    default=DEFAULT_MAX_SIZE >> 20,
    show_default=True,
    metavar="MIB",
    help="Refuse what makes a copy out of a guest larger; each file counts as 4 KiB at least.",
)


@click.command()
@click.argument("source")
@click.argument("target")
@max_size_option
def cp(source: str, target: str, max_size: int) -> None:
    """Copy a file or a directory: `cp FILE NAME:PATH` or `cp NAME:PATH FILE`.

    NAME is a guest (in a lab, LAB/GUEST). PATH without a slash at its start is below root's home.
    What is copied to a directory goes into it. Owners are not kept; a guest's devices and sockets
    are left out.
    """
    (from_guest, from_path), (to_guest, to_path) = _parted(source), _parted(target)
    if bool(from_guest) == bool(to_guest):
        raise click.UsageError("one of the two is in a guest, as NAME:PATH")
    with working(f"copying {source} to {target}"):
        if to_guest:
            copy_in(to_guest, Path(from_path), to_path)
        else:
            copy_out(from_guest, from_path, Path(to_path), warn, max_size << 20)


def _parted(place: str) -> tuple[str, str]:
    """A guest's name and a path in it; no name for a path of ours, as for all that begin so."""
    name, colon, path = place.partition(":")
    if not colon or not name or name.startswith((".", "/")):
        return "", place
    return name, path or "."


def warn(what: str) -> None:
    """Tell of what a copy leaves out."""
    click.echo(f"mlx5emu: {what}", err=True)

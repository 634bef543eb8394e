"""``mlx5emu down``: end guests that live on."""

from __future__ import annotations

from collections.abc import Iterable

import click

from emu.cli.shared.progress import working
from emu.guests.errors import GuestError
from emu.guests.named import daemon, running


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All guests and labs of yours.")
def down(names: tuple[str, ...], everything: bool) -> None:
    """End guests, or whole labs, at once; what they wrote on their disks is gone.

    The status is 123 when the device server of one has failed, or a full disk has cut short its
    trace, capture or record.
    """
    if bool(names) == everything:
        raise click.UsageError("name what is to end, or say --all")
    end_all(running.entries() if everything else [running.find(name) for name in names])


def end_all(entries: Iterable[running.RunningEntry]) -> None:
    """End them all. Raises the first complaint of a server; all others are told before."""
    complaints: list[GuestError] = []
    for entry in entries:
        with working(f"ending {entry.name}"):
            complaint = daemon.end(entry)
        click.echo(f"{entry.name} is down")
        if complaint is not None:
            complaint.args = (f"{entry.name}: {complaint}",)
            complaints.append(complaint)
    for complaint in complaints[1:]:
        click.echo(f"mlx5emu: {complaint}", err=True)
    for complaint in complaints[:1]:
        raise complaint

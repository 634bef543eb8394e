"""``mlx5emu down``: stops guests that run in the background."""

from __future__ import annotations

from collections.abc import Iterable

import click

from emu.cli.shared.notice import notice
from emu.cli.shared.progress import working
from emu.guests.errors import GuestError
from emu.guests.named import daemon, running


@click.command(short_help="Stop guests or labs.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Stop all guests and labs of this user.")
def down(names: tuple[str, ...], everything: bool) -> None:
    """Stop guests, or whole labs, at once; the contents of their disks are lost.

    The status is 123 if a device server has failed, or a full disk has truncated its trace, capture
    or record.

    Example: mlx5emu down dev
    """
    if bool(names) == everything:
        raise click.UsageError("give the names of guests or labs, or --all")
    end_all(running.entries() if everything else [find_whole(name) for name in names])


def find_whole(name: str) -> running.RunningEntry:
    """Return the guest or lab to stop. Raises LabError for one guest of a lab with several."""
    return running.find(name, "mlx5emu down {} stops the whole lab")


def end_all(entries: Iterable[running.RunningEntry]) -> None:
    """Stop guests and labs one after another, and print each name.

    Errors that their servers reported are printed, except the first, which is raised at the end.
    """
    complaints: list[GuestError] = []
    for entry in entries:
        with working(f"stopping {entry.name}"):
            complaint = daemon.end(entry)
        click.echo(f"{entry.name} is down")
        if complaint is not None:
            complaint.args = (f"{entry.name}: {complaint}",)
            complaints.append(complaint)
    for complaint in complaints[1:]:
        notice(str(complaint))
    for complaint in complaints[:1]:
        raise complaint

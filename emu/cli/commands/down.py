"""``mlx5emu down``: end guests that live on."""

from __future__ import annotations

import click

from emu.guests.named import keeper, running


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All guests and labs of yours.")
def down(names: tuple[str, ...], everything: bool) -> None:
    """End guests, or whole labs, at once; what they wrote on their disks is gone."""
    if bool(names) == everything:
        raise click.UsageError("name what is to end, or say --all")
    for entry in running.entries() if everything else [running.find(name) for name in names]:
        keeper.end(entry)
        click.echo(f"{entry.name} is down")

"""``mlx5emu net``: what lies behind the ports of a server's functions, and how well it carries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from emu.cli.shared.control import (
    connect,
    console,
    control_option,
    function_name,
    guest_argument,
    named,
)
from emu.cli.shared.tables import Rows
from emu.cli.shared.words import table_of
from emu.host.printable import one_line

_WHERE = ("function", "direction")


@click.group()
def net() -> None:
    """Delay, lose, reorder and mark packets of a running guest, as tc's netem would.

    A function's port has a link for what it sends (direction=tx) and one for what it receives
    (rx). `mlx5emu guide @links` describes the properties.
    """


@net.command("set")
@control_option
@click.argument("words", nargs=-1, required=True, metavar="[NAME] KEY=VALUE...")
def set_(words: tuple[str, ...], control: Path | None) -> None:
    """Set links: mlx5emu net set dev function=0 direction=tx delay=10ms loss=1

    NAME is a guest; without, the only one that runs. The new properties replace all old ones.
    Without function and direction they hold for all functions of the guest, in both directions.
    The name of a lab stands for the functions of all its guests.

    \b
    delay=10ms jitter=2ms       time on the way, and how much it differs
    rate=1gbit limit=1000       bits per second, packets that wait
    loss=1 duplicate=1          percent of the packets
    corrupt=1                   percent that get a wrong bit
    reorder=20 gap=5            percent that overtake delayed ones
    gemodel="[1, 30]"           bursts of loss (Gilbert and Elliott: p, r, 1-h, 1-k)
    mark=1 ecn=true             percent marked "congestion experienced", or in place of loss
    ce_threshold=1ms            mark packets that waited longer for the line
    function=0 direction=tx     which link; after=N once N commands have run
    """
    name, words = named(words, control, lambda word: "=" not in word and len(words) > 1)
    table = table_of(words, "link")
    if not table.keys() - {*_WHERE}:
        raise click.UsageError("a property, like delay=1ms; `net clear` takes all away")
    with connect(control, name) as client:
        client.set_link(table)


@net.command()
@control_option
@click.argument("words", nargs=-1, metavar="[NAME] [KEY=VALUE...]")
def clear(words: tuple[str, ...], control: Path | None) -> None:
    """Clear all links of the guest NAME, or those of function=N and direction=tx|rx."""
    name, words = named(words, control, lambda word: "=" not in word)
    table = table_of(words, "link")
    if others := sorted(table.keys() - {*_WHERE}):
        raise click.UsageError(f"{', '.join(others)}: only function and direction choose links")
    with connect(control, name) as client:
        client.set_link(table)


@net.command()
@guest_argument
@control_option
@click.option("--json", "as_json", is_flag=True, help="Print what the server says.")
def show(name: str | None, control: Path | None, as_json: bool) -> None:
    """Show the links of the guest NAME, of now and before, and what became of their packets."""
    with connect(control, name) as client:
        links = client.links()
    if as_json:
        click.echo(json.dumps(links, indent=1))
        return
    table = Rows("function", "direction", "properties", "on the way", "packets")
    for link in links:
        where = (function_name(link), str(link["direction"]))
        table.add(*where, _properties(link), str(link["on_the_way"]), _counts(link))
    console().print(table)


def _properties(link: dict[str, Any]) -> str:
    words = (f"{key}={json.dumps(value)}" for key, value in link["properties"].items())
    return one_line(" ".join(words).replace('"', "")) or "-"


def _counts(link: dict[str, Any]) -> str:
    counts = dict(link["counts"])
    packets = counts.pop("packets", 0)
    return one_line(", ".join([f"{packets:,}", *(f"{n:,} {why}" for why, n in counts.items())]))

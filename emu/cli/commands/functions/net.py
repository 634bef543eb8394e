"""``mlx5emu net``: properties of the links at the ports of a server's functions."""

from __future__ import annotations

import json
from pathlib import Path

import click

from emu.cli.shared.control import (
    connect,
    console,
    control_option,
    function_name,
    guest_argument,
    named,
    runs_as,
)
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.link_text import counts_of, properties_of
from emu.cli.shared.tables import Rows
from emu.cli.shared.words import table_of

_WHERE = ("function", "direction")


@click.group(cls=NamedGroup, short_help="Delay, drop, reorder and mark packets of a guest.")
def net() -> None:
    """Delay, drop, reorder and mark packets of a running guest, like tc's netem.

    A function's port has one link for sent packets (direction=tx) and one for received packets
    (rx). `mlx5emu guide @links` describes the properties.

    Example: mlx5emu net set dev delay=10ms loss=1
    """


@net.command("set", short_help="Set the properties of links.")
@control_option
@click.argument("words", nargs=-1, required=True, metavar="[NAME] KEY=VALUE...")
def set_(words: tuple[str, ...], control: Path | None) -> None:
    """Set the properties of links; they replace all previous ones.

    NAME is a guest, by default the only one that runs, or a lab, for all its guests. Without
    function and direction the properties hold for all functions, in both directions.

    \b
    delay=10ms jitter=2ms       latency, and its variation
    rate=1gbit limit=1000       bits per second, packets in the queue
    loss=1 duplicate=1          percent of the packets
    corrupt=1                   percent with a bit error
    reorder=20 gap=5            percent sent before delayed packets
    gemodel="[1, 30]"           loss in bursts (Gilbert-Elliott: p, r, 1-h, 1-k)
    mark=1 ecn=true             percent marked CE; mark instead of drop
    ce_threshold=1ms            mark packets that were queued longer
    function=0 direction=tx     link; after=N: start after N commands

    Example: mlx5emu net set dev function=0 direction=tx delay=10ms loss=1
    """
    name, words = named(words, control, lambda word: "=" not in word and len(words) > 1)
    table = table_of(words, "link", "loss=1", runs_as)
    if not table.keys() - {*_WHERE}:
        raise click.UsageError("give a property such as delay=1ms; `net clear` removes all")
    with connect(control, name) as client:
        client.set_link(table)


@net.command(short_help="Remove all properties of links.")
@control_option
@click.argument("words", nargs=-1, metavar="[NAME] [KEY=VALUE...]")
def clear(words: tuple[str, ...], control: Path | None) -> None:
    """Remove all properties of the guest NAME's links, or of function=N and direction=tx|rx.

    Example: mlx5emu net clear dev function=0
    """
    name, words = named(words, control, lambda word: "=" not in word)
    table = table_of(words, "link")
    if others := sorted(table.keys() - {*_WHERE}):
        raise click.UsageError(f"{', '.join(others)}: only function and direction select links")
    with connect(control, name) as client:
        client.set_link(table)


@net.command(short_help="Show the links and their packet counts.")
@guest_argument
@control_option
@click.option("--json", "as_json", is_flag=True, help="Print the server's answer as JSON.")
def show(name: str | None, control: Path | None, as_json: bool) -> None:
    """Show the present and past links of the guest NAME, and their packet counts.

    Example: mlx5emu net show dev
    """
    with connect(control, name) as client:
        links = client.links()
    if as_json:
        click.echo(json.dumps(links, indent=1))
        return
    table = Rows("function", "direction", "properties", "in flight", "packets")
    for link in links:
        where = (function_name(link), str(link["direction"]))
        table.add(*where, properties_of(link), str(link["in_flight"]), counts_of(link))
    console().print(table)

"""``mlx5emu subnet``: the simulated subnet that a server's functions are plugged into."""

from __future__ import annotations

import json
from pathlib import Path

import click

from emu.cli.shared.control import connect, console, control_option, guest_argument, named
from emu.cli.shared.tables import Rows
from emu.host.printable import one_line

_PLACE = 2
"""The words that say where: a node and a port."""


@click.group()
def subnet() -> None:
    """Cut and mend cables of the subnet that a guest was started with (--subnet).

    Switches tell the subnet's manager by traps, and it finds other ways.
    """


@subnet.command()
@guest_argument
@control_option
@click.option("--json", "as_json", is_flag=True, help="Print what the server says.")
def show(name: str | None, control: Path | None, as_json: bool) -> None:
    """Show the cables of the guest NAME's subnet, and the states of their ends."""
    with connect(control, name) as client:
        nodes = client.call("subnet.show")["nodes"]
    if as_json:
        click.echo(json.dumps(nodes, indent=1))
        return
    table = Rows("node", "LID", "port", "state", "leads to", "cable")
    for node in nodes:
        for port in node["ports"]:
            peer = f"{one_line(port['peer'])} {port['peer_port']}"
            cable = "cut" if port["is_cut"] else ""
            row = (one_line(node["name"]), str(node["lid"] or "-"), str(port["port"]))
            table.add(*row, port["state"], peer, cable)
    console().print(table)


@subnet.command("cut")
@control_option
@click.argument("words", nargs=-1, required=True, metavar="[NAME] NODE PORT")
def cut_(words: tuple[str, ...], control: Path | None) -> None:
    """Cut the cable at a node's port: mlx5emu subnet cut leaf0 7

    NAME is the guest whose subnet it is; without, the only one that runs.
    """
    _set(words, control, is_cut=True)


@subnet.command()
@control_option
@click.argument("words", nargs=-1, required=True, metavar="[NAME] NODE PORT")
def mend(words: tuple[str, ...], control: Path | None) -> None:
    """Mend the cable at a node's port: its link trains, and waits for the manager."""
    _set(words, control, is_cut=False)


def _set(words: tuple[str, ...], control: Path | None, *, is_cut: bool) -> None:
    name, place = named(words, control, lambda _word: len(words) > _PLACE)
    if len(place) != _PLACE or not place[1].isdecimal():
        raise click.UsageError("a node's name and the number of one of its ports")
    with connect(control, name) as client:
        client.call("subnet.cut", node=place[0], port=int(place[1]), is_cut=is_cut)

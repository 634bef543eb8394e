"""``mlx5emu subnet``: the simulated InfiniBand subnet of a server's functions."""

from __future__ import annotations

import json
from pathlib import Path

import click

from emu.cli.shared.control import connect, console, control_option, guest_argument, named
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.tables import Rows
from emu.host.printable import one_line

_END = 2
"""Number of words that name a cable: a node and a port."""


@click.group(cls=NamedGroup, short_help="Cut and mend cables of a simulated subnet.")
def subnet() -> None:
    """Cut and mend cables of the subnet that a guest was started with (--subnet).

    Switches send traps to the subnet manager, which computes other routes.

    Example: mlx5emu subnet cut leaf0 7
    """


@subnet.command(short_help="Show the cables of the subnet.")
@guest_argument
@control_option
@click.option("--json", "as_json", is_flag=True, help="Print the server's answer as JSON.")
def show(name: str | None, control: Path | None, as_json: bool) -> None:
    """Show the cables of the guest NAME's subnet, and the states of their ports.

    Example: mlx5emu subnet show dev
    """
    with connect(control, name) as client:
        nodes = client.call("subnet.show")["nodes"]
    if as_json:
        click.echo(json.dumps(nodes, indent=1))
        return
    table = Rows("node", "LID", "port", "state", "peer", "cable")
    for node in nodes:
        for port in node["ports"]:
            peer = f"{one_line(port['peer'])} {port['peer_port']}"
            cable = "cut" if port["is_cut"] else ""
            row = (one_line(node["name"]), str(node["lid"] or "-"), str(port["port"]))
            table.add(*row, port["state"], peer, cable)
    console().print(table)


@subnet.command("cut", short_help="Cut a cable.")
@control_option
@click.argument("words", nargs=-1, required=True, metavar="[NAME] NODE PORT")
def cut_(words: tuple[str, ...], control: Path | None) -> None:
    """Cut the cable at a node's port.

    NAME is the guest of the subnet, by default the only one that runs.

    Example: mlx5emu subnet cut leaf0 7
    """
    _set(words, control, is_cut=True)


@subnet.command(short_help="Mend a cable.")
@control_option
@click.argument("words", nargs=-1, required=True, metavar="[NAME] NODE PORT")
def mend(words: tuple[str, ...], control: Path | None) -> None:
    """Mend the cable at a node's port; the link trains and waits for the subnet manager.

    Example: mlx5emu subnet mend leaf0 7
    """
    _set(words, control, is_cut=False)


def _set(words: tuple[str, ...], control: Path | None, *, is_cut: bool) -> None:
    """Cut or mend the cable at the port that ``words`` name.

    Raises UsageError for words that are not [NAME] NODE PORT, and ControlError of the server.
    """
    name, end = named(words, control, lambda _word: len(words) > _END)
    if len(end) != _END or not end[1].isdecimal():
        raise click.UsageError("give the name of a node and the number of one of its ports")
    with connect(control, name) as client:
        client.call("subnet.cut", node=end[0], port=int(end[1]), is_cut=is_cut)

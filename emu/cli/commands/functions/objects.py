"""``mlx5emu objects``: the objects of a running server's functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.tree import Tree

from emu.cli.shared.completion import complete_kind
from emu.cli.shared.control import (
    UNLIMITED,
    connect,
    console,
    control_option,
    function_name,
    guest_argument,
)
from emu.cli.shared.params import FunctionName, WholeNumber
from emu.cli.shared.tables import Rows
from emu.host.printable import one_line


@click.command(short_help="Show queues, keys and other objects of a guest.")
@guest_argument
@control_option
@click.option(
    "--function",
    type=FunctionName(),
    metavar="N",
    help="Show only this function, such as 0, or 0.vf1.",
)
@click.option(
    "--kind",
    metavar="KIND",
    help="Show only objects of this kind, such as qp or mkey.",
    shell_complete=complete_kind,
)
@click.option(
    "--limit",
    metavar="N",
    type=WholeNumber(0, 20000),
    default=100,
    show_default=True,
    help="Maximum number of objects of a kind.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the server's answer as JSON.")
def objects(
    name: str | None,
    control: Path | None,
    function: int | str | None,
    kind: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show the objects that the driver of the guest NAME has created: queues, keys, domains.

    NAME defaults to the only guest or lab of `mlx5emu ps`, or without one to the only server.

    The output includes page faults that wait for the driver, and fault rules. Indirect keys are
    shown as trees. Addresses that Ethernet segments have learned are last.

    Example: mlx5emu objects dev --kind qp
    """
    choice: dict[str, Any] = {"limit": limit}
    if function is not None:
        choice["function"] = function
    if kind is not None:
        choice["kind"] = kind
    with connect(control, name) as client:
        answer = client.objects(**choice)
    if as_json:
        click.echo(json.dumps(answer, indent=1))
        return
    screen = console()
    for one in answer["functions"]:
        for kind_name, table in one["objects"].items():
            if table["total"]:
                _show(screen, f"function {function_name(one)}: {kind_name}", table)
    for segment in answer["segments"]:
        if segment["addresses"]:
            _show_segment(screen, segment)


def _show_segment(screen: Console, segment: Mapping[str, Any]) -> None:
    table = Rows("address", "port", title=one_line(f"{segment['segment']}: addresses"))
    for port in segment["ports"]:
        for address in port["addresses"]:
            table.add(one_line(address), one_line(port["port"]))
    screen.print(table)
    screen.print()


def _show(screen: Console, title: str, listing: Mapping[str, Any]) -> None:
    """Print the table of one kind of objects, and the trees of its indirect keys."""
    items: Sequence[Mapping[str, Any]] = listing["items"]
    shown = (
        f"{len(items)} of {listing['total']}" if len(items) < listing["total"] else listing["total"]
    )
    known = dict.fromkeys(name for item in items for name in item)
    names = [name for name in known if name != "below"]
    table = Rows(*names, title=f"{title}, {shown}")
    for item in items:
        table.add(*(_word(name, item.get(name)) for name in names))
    screen.print(table)
    _show_trees(screen, items)
    screen.print()


def _show_trees(screen: Console, items: Sequence[Mapping[str, Any]]) -> None:
    by_key = {item["key"]: item for item in items if "below" in item or "mode" in item}
    for item in items:
        if item.get("below"):
            screen.print(_tree(item, by_key, frozenset()))


def _tree(
    item: Mapping[str, Any], by_key: Mapping[int, Mapping[str, Any]], above: frozenset[int]
) -> Tree:
    """Return the tree of a key and the keys it refers to.

    Cycles are not followed; a key that does not exist is marked.
    """
    tree = Tree(f"key {item['key']:#x} {item['mode']}")
    for entry in item.get("below", ()):
        below = by_key.get(entry["key"])
        text = f"{entry['va']:#x}+{entry['bytes']:#x} -> key {entry['key']:#x}"
        if not entry["exists"]:
            tree.add(f"{text}, which does not exist")
        elif below is not None and below.get("below") and entry["key"] not in above:
            branch = tree.add(text)
            branch.add(_tree(below, by_key, above | {item["key"]}))
        else:
            tree.add(text)
    return tree


_HEX = frozenset(
    {
        "handle", "key", "remote_qpn", "start", "bytes", "scq", "rcq", "srq", "pd", "qpn", "va",
        "token", "eqn", "table", "miss", "td", "rqn", "rqtn", "rqs",
    }
)  # fmt: skip
"""Fields that are shown in hexadecimal, the form of handles."""


def _word(name: str, value: object) -> str:
    """Return a field's value as printable text; "-" for None, hexadecimal for handles."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        fields = (f"{field}={_word('handle', one)}" for field, one in value.items())
        return one_line(" ".join(fields), UNLIMITED) or "-"
    if isinstance(value, list):
        return ", ".join(_word(name, one) for one in value) or "-"
    if name in _HEX and type(value) is int:
        return f"{value:#x}"
    return one_line(str(value), UNLIMITED)

"""``mlx5emu status``: the functions of a server that runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import JustifyMethod
from rich.table import Table

from emu.cli.commands._control import connect, console, control_option, interval_option
from emu.control import prometheus
from emu.host.printable import one_line

_SECOND_NS = 1e9
_ABOUT = (
    "function",
    "model",
    "state",
    "address",
    "link",
    "faults",
    "held",
    "in_force",
    "page_faults",
)
_COUNTS = (
    "commands", "events", "completions", "sent_packets", "sent_bytes", "received_packets",
    "received_bytes",
)  # fmt: skip
_PORT_COUNTS = ("received", "sent", "known")
_PORT = ("port", "link", *_PORT_COUNTS, "dropped")
_PORT_TITLES = {"known": "addresses"}


@click.command()
@control_option
@click.option("--json", "as_json", is_flag=True, help="Print what the server says.")
@click.option(
    "--prometheus", "as_prometheus", is_flag=True, help="Print it in Prometheus's text format."
)
@click.option("--rate", is_flag=True, help="Counts per second instead of counts.")
@interval_option("How long --rate looks.")
def status(
    control: Path | None, as_json: bool, as_prometheus: bool, rate: bool, interval: float
) -> None:
    """Show state, port and counts of the functions of a running guest or server."""
    with connect(control) as client:
        told = client.status()
        if as_prometheus:
            click.echo(prometheus.text(told), nl=False)
            return
        if rate:
            time.sleep(interval)
            told = rates(told, client.status())
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return
    table = Table(box=None, header_style="bold")
    for name in ("", *_ABOUT[1:], *_COUNTS):
        table.add_column(name.replace("_", " "), justify="right" if name in _COUNTS else "left")
    for one in told["functions"]:
        counts = [f"{one['counts'][name]:,.0f}" for name in _COUNTS]
        words = (one_line(str(one[name])) for name in _ABOUT)
        table.add_row(*words, *counts)
    console().print(table)
    for segment in told["segments"]:
        console().print(_segment(segment))
    for one in told["functions"]:
        if lost := one["counts"].get("lost_events"):
            console().print(f"function {one['function']}: {lost:,.0f} events lost, EQ overrun")
        console().print(f"function {one['function']}: {_ledger(one['ledger'])}")


def _segment(told: Mapping[str, Any]) -> Table:
    """The ports of a segment, and what was dropped there."""
    table = Table(title=told["segment"], title_justify="left", box=None, header_style="bold")
    for name in _PORT:
        justify: JustifyMethod = "right" if name in _PORT_COUNTS else "left"
        table.add_column(_PORT_TITLES.get(name, name), justify=justify)
    for port in told["ports"]:
        dropped = ", ".join(f"{count:,} {why}" for why, count in port["dropped"].items())
        counts = (f"{port[name]:,}" for name in _PORT_COUNTS)
        up = "up" if port["up"] else "down"
        table.add_row(one_line(port["port"]), up, *counts, one_line(dropped) or "-")
    return table


def _ledger(ledger: Mapping[str, Any]) -> str:
    """What the host holds for a function, the most first."""
    accounts = sorted(ledger["accounts"].items(), key=lambda account: -account[1])
    parts = ", ".join(f"{kind} {_mib(used)}" for kind, used in accounts)
    return f"{_mib(ledger['used'])} of {_mib(ledger['limit'])} MiB held" + f" ({parts})" * bool(
        parts
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f}"


def rates(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The counts as numbers per second between two answers.

    Counts of objects that have gone in between make none below zero.
    """
    seconds = (after["t_ns"] - before["t_ns"]) / _SECOND_NS
    functions = []
    for one, other in zip(before["functions"], after["functions"]):
        counts = {
            name: round(max(count - one["counts"][name], 0) / seconds, 1)
            for name, count in other["counts"].items()
        }
        functions.append({**other, "counts": counts})
    return {**after, "functions": functions, "seconds": round(seconds, 3)}

"""``mlx5emu top``: what the functions of a running server do, again and again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from emu.cli.commands._control import connect, console, control_option, interval_option
from emu.cli.commands.status import rates
from emu.control.client import ControlError
from emu.host.printable import one_line

_RATES = {
    "commands": "commands/s",
    "completions": "CQEs/s",
    "events": "EQEs/s",
    "sent_packets": "packets sent/s",
    "sent_bytes": "bytes sent/s",
    "received_packets": "received/s",
    "received_bytes": "bytes received/s",
}
_TROUBLE = {
    "refused": "refused",
    "error_completions": "error CQEs",
    "page_faults": "page faults",
    "faults_fired": "faults fired",
}
_UNITS = ("", "K", "M", "G", "T")


@click.command()
@control_option
@interval_option("How often it looks.")
@click.option(
    "--times",
    type=click.IntRange(min=1),
    metavar="N",
    help="End after so many looks, not by Ctrl-C.",
)
def top(control: Path | None, interval: float, times: int | None) -> None:
    """Watch the functions of a running guest or server: rates, errors, objects, memory.

    Numbers with a unit of /s are of the last interval; errors and faults are counts since the
    function's power-on.
    """
    with connect(control) as client, Live(console=console(), auto_refresh=False) as live:
        before = client.status()
        done = 0
        while times is None or done < times:
            time.sleep(interval)
            try:
                now = client.status()
            except ControlError:
                live.update(Text("the server has ended"), refresh=True)
                return
            live.update(view(before, now), refresh=True)
            before, done = now, done + 1


def view(before: Mapping[str, Any], now: Mapping[str, Any]) -> Group:
    """What is shown between two answers: rates, then counts of what goes wrong, then objects."""
    moving = rates(before, now)["functions"]
    traffic = _table("function", "model", "state", "link", **_RATES)
    trouble = _table("function", **_TROUBLE, internal="internal errors", rules="rules", held="held")
    for one, rate in zip(now["functions"], moving):
        words = (one_line(str(one[name])) for name in ("function", "model", "state", "link"))
        traffic.add_row(*words, *(scaled(rate["counts"][name]) for name in _RATES))
        counts = [one["counts"][name] for name in _TROUBLE]
        counts += [one["internal_errors"], one["faults"], one["held"]]
        trouble.add_row(str(one["function"]), *(_alarming(count) for count in counts))
    return Group(traffic, Text(), trouble, Text(), *map(_objects, now["functions"]))


def _table(*words: str, **numbers: str) -> Table:
    table = Table(*words, box=None, header_style="bold")
    for title in numbers.values():
        table.add_column(title, justify="right")
    return table


def _objects(one: Mapping[str, Any]) -> Text:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in one["objects"].items() if count)
    ledger = one["ledger"]
    held = f"{scaled(ledger['used'])}B of {scaled(ledger['limit'])}B held"
    return Text(one_line(f"function {one['function']}: {held}; {kinds or 'no objects'}"))


def _alarming(count: int) -> Text:
    return Text(f"{count:,}", style="bold red" if count else "dim")


def scaled(number: float) -> str:
    """A number of up to four digits and its unit, of 1000."""
    for unit in _UNITS[:-1]:
        if number < 999.5:
            return f"{number:.0f}{unit}" if number >= 99.5 or not unit else f"{number:.1f}{unit}"
        number /= 1000
    return f"{number:.1f}{_UNITS[-1]}"

"""``mlx5emu top``: a live view of a running server's functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from emu.cli.commands.functions.status import rates
from emu.cli.shared import units
from emu.cli.shared.control import (
    UNLIMITED,
    connect,
    console,
    control_option,
    function_name,
    guest_argument,
    interval_option,
)
from emu.cli.shared.keys import key_pressed
from emu.cli.shared.params import WholeNumber
from emu.cli.shared.tables import Hanging, Rows
from emu.host.printable import one_line
from emu.server.control.client import ControlError

_RATES = {"commands": "commands/s", "completions": "CQEs/s", "events": "EQEs/s"}
_TRAFFIC = {
    "sent_packets": "packets sent/s",
    "sent_bytes": "sent/s",
    "received_packets": "packets received/s",
    "received_bytes": "received/s",
}
_TROUBLE = {
    "refused": "refused",
    "error_completions": "error CQEs",
    "page_faults": "page faults",
}
_FAULTS = {"faults": "rules", "faults_fired": "fired", "held": "held"}
_END = b"qQ"
"""Keys that end the command."""


@click.command(short_help="Watch rates, errors and objects of functions.")
@guest_argument
@control_option
@interval_option("Seconds between two views.")
@click.option(
    "--times",
    type=WholeNumber(min=1),
    metavar="N",
    help="End after N intervals instead of by q or Ctrl-C.",
)
def top(name: str | None, control: Path | None, interval: float, times: int | None) -> None:
    """Watch the functions of the guest NAME: rates, errors, objects, memory.

    NAME defaults to the only guest or lab of `mlx5emu ps`, or without one to the only server.

    Rates (/s) are those of the last interval; errors and faults are counts since the function's
    power-on; `held` counts events that fault rules hold back. The key q ends the command. In a pipe
    or a file each interval adds a view.

    Example: mlx5emu top dev
    """
    screen = console()
    with (
        connect(control, name) as client,
        key_pressed(_END) as is_ended,
        _views(screen) as show,
    ):
        before = client.status()
        done = 0
        while times is None or done < times:
            if is_ended(interval):
                return
            try:
                now = client.status()
            except ControlError:
                show(Text("the server has ended"))
                return
            show(view(before, now))
            before, done = now, done + 1


@contextlib.contextmanager
def _views(screen: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Yield a function that replaces the view on a terminal, or else prints another, at once."""
    if not screen.is_terminal:
        yield screen.print
        return
    with Live(console=screen, auto_refresh=False) as live:
        yield lambda shown: live.update(shown, refresh=True)


def view(before: Mapping[str, Any], now: Mapping[str, Any]) -> Group:
    """Return the view of two successive answers: rates, then errors and faults, then objects."""
    moving = rates(before, now)["functions"]
    working = _table("function", "model", "state", "link", **_RATES)
    traffic = _table("function", **_TRAFFIC)
    trouble = _table("function", **_TROUBLE, internal="internal errors", **_FAULTS)
    for one, rate in zip(now["functions"], moving):
        about = (one_line(str(one[name])) for name in ("model", "state", "link"))
        words = [function_name(one), *about]
        working.add(*words, *(units.count(rate["counts"][name]) for name in _RATES))
        traffic.add(words[0], *(_moved(name, rate["counts"][name]) for name in _TRAFFIC))
        counts = [one["counts"][name] for name in _TROUBLE]
        counts += [one["internal_errors"], one["faults"]]
        counts += [one["counts"]["faults_fired"], one["held"]]
        trouble.add(words[0], *(_alarming(count) for count in counts))
    shown = (working, traffic, trouble)
    parts = [part for table in shown for part in (table, Text())]
    return Group(*parts, *map(_objects, now["functions"]), Text())


def _moved(name: str, number: float) -> str:
    return units.size(number) if name.endswith("_bytes") else units.count(number)


def _table(*words: str, **numbers: str) -> Rows:
    return Rows(*words, *numbers.values(), numbers=numbers.values())


def _objects(one: Mapping[str, Any]) -> Hanging:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in one["objects"].items() if count)
    ledger = one["ledger"]
    total = f"host memory {units.size(ledger['used'])} of {units.size(ledger['limit'])}"
    text = f"function {function_name(one)}: {total}; {kinds or 'no objects'}"
    return Hanging(one_line(text, UNLIMITED))


def _alarming(count: int) -> Text:
    return Text(f"{count:,}", style="bold red" if count else "dim")

"""``mlx5emu ps``: lists the running guests."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from emu.cli.shared.control import UNLIMITED, console, nameless_servers
from emu.cli.shared.tables import Rows
from emu.guests.named import attach, running
from emu.host.printable import one_line


@click.command(short_help="List the running guests and their states.")
def ps() -> None:
    """List the guests of `up`, `lab up` and `run` that run, and their states.

    A guest is booting, up, panicked or off. A panicked or powered-off guest stays listed until
    `mlx5emu down`, for `dmesg` and `dump`. Servers of guests without a name, such as those of
    `boot` and of pytest, are listed by their control socket.

    Example: mlx5emu ps
    """
    entries = running.entries()
    if entries:
        _show(entries)
    nameless = nameless_servers()
    for path in nameless:
        click.echo(f"a server of another program runs: --control {one_line(str(path))}")
    if not entries and not nameless:
        click.echo("no guests run; start one with mlx5emu up NAME")


def _show(entries: Sequence[running.RunningEntry]) -> None:
    numbers = ("minutes", "process")
    table = Rows("name", "guests", "state", "suite", *numbers, "functions", numbers=numbers)
    for entry in entries:
        since = entry.info.get("since")
        minutes = (time.time() - since) / 60 if isinstance(since, float) else 0.0
        guests = " ".join(entry.guests) or "starting"
        words = (
            entry.name,
            guests,
            _state(entry),
            str(entry.info.get("suite", "")),
        )
        counts = (f"{minutes:.0f}", str(entry.pid))
        table.add(*map(one_line, words), *counts, one_line(_devices(entry), UNLIMITED))
    console().print(table)


def _state(entry: running.RunningEntry) -> str:
    """Return the state of an entry's guests; if they differ, each guest's name and state.

    Return "booting" for an entry without guests yet.
    """
    states = {name: attach.state_of(f"{entry.name}/{name}") for name in entry.guests}
    if len(set(states.values())) < 2:
        return next(iter(states.values()), "booting")
    return ", ".join(f"{name}: {state}" for name, state in states.items())


def _devices(entry: running.RunningEntry) -> str:
    devices = entry.info.get("devices")
    return " ".join(map(str, devices)) if isinstance(devices, list) else ""

"""``mlx5emu ps``: lists the running guests."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from emu.cli.shared.control import (
    UNLIMITED,
    console,
    nameless_servers,
    servers_of_other_sessions,
)
from emu.cli.shared.tables import Rows
from emu.guests.named import attach, running
from emu.host.counted import counted
from emu.host.printable import one_line


@click.command(short_help="List the running guests and their states.")
@click.option("--json", "as_json", is_flag=True, help="Print the list of guests as JSON.")
def ps(as_json: bool) -> None:
    """List the guests of `up`, `lab up` and `run` that run, and their states.

    A guest is booting, up, panicked or off, or down if the server of its functions has ended. A
    panicked or powered-off guest stays listed until `mlx5emu down`, for `dmesg` and `dump`. Servers
    of guests without a name, such as those of `boot` and of pytest, are listed by their control
    socket, and those of the user's other sessions (with another XDG_RUNTIME_DIR) in one line;
    --json leaves them out.

    Example: mlx5emu ps
    """
    rows = [_row(entry) for entry in running.entries()]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    if rows:
        _show(rows)
    else:
        click.echo("no guests run; start one with mlx5emu up NAME")
    for path in nameless_servers():
        click.echo(f"a server of another program runs: --control {one_line(str(path))}")
    if others := servers_of_other_sessions():
        paths = " or ".join(one_line(str(path)) for path in others)
        runs = "runs" if len(others) == 1 else "run"
        click.echo(f"{counted(len(others), 'server')} {runs} in other sessions: --control {paths}")


def _row(entry: running.RunningEntry) -> dict[str, Any]:
    """Return the cells of an entry by the names of their columns."""
    since = entry.info.get("since")
    return {
        "name": entry.name,
        "guests": entry.guests,
        "state": _state(entry),
        "suite": str(entry.info.get("suite", "")),
        "minutes": round((time.time() - since) / 60) if isinstance(since, float) else 0,
        "process": entry.pid,
        "functions": _devices(entry),
    }


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    table = Rows(*rows[0], numbers=("minutes", "process"))
    for row in rows:
        guests = " ".join(row["guests"]) or "starting"
        words = map(one_line, (row["name"], guests, row["state"], row["suite"]))
        functions = one_line(" ".join(row["functions"]), UNLIMITED)
        table.add(*words, str(row["minutes"]), str(row["process"]), functions)
    console().print(table)


def _state(entry: running.RunningEntry) -> str:
    """Return the state of an entry's guests; if they differ, each guest's name and state.

    Return "booting" for an entry without guests yet.
    """
    states = {name: attach.state_of(f"{entry.name}/{name}") for name in entry.guests}
    if len(set(states.values())) < 2:
        return next(iter(states.values()), "booting")
    return ", ".join(f"{name}: {state}" for name, state in states.items())


def _devices(entry: running.RunningEntry) -> list[str]:
    devices = entry.info.get("devices")
    return [str(device) for device in devices] if isinstance(devices, list) else []

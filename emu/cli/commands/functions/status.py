"""``mlx5emu status``: state and counts of a running server's functions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from emu.cli.shared import units
from emu.cli.shared.control import (
    connect,
    console,
    control_option,
    function_name,
    guest_argument,
    interval_option,
)
from emu.cli.shared.tables import Hanging, Rows
from emu.host.printable import one_line
from emu.server.control import prometheus
from emu.version import COMPILED, PURE

_SECOND_NS = 1e9
_ABOUT = ("model", "state", "address", "link")
_TROUBLE = ("faults", "held", "in_force", "page_faults")
_UNITS = {
    "commands": units.count,
    "events": units.count,
    "completions": units.count,
    "sent_packets": units.count,
    "sent_bytes": units.size,
    "received_packets": units.count,
    "received_bytes": units.size,
}
"""Counts that are shown, and their formats."""
_TITLES = {
    "faults": "rules",
    "sent_packets": "packets sent",
    "sent_bytes": "sent",
    "received_packets": "packets received",
    "received_bytes": "received",
}
_TABLES = (_ABOUT, (*list(_UNITS)[:3], *_TROUBLE), list(_UNITS)[3:])
"""Columns of each table; each table fits 80 columns."""
_PORT_COUNTS = ("received", "sent", "known")
_PORT = ("port", "link", *_PORT_COUNTS, "dropped")
_PORT_TITLES = {"known": "addresses", "dropped": "frames dropped"}
_REASONS = {
    "down": "port down",
    "loop": "uplink blocked, loop",
    "moved": "address moved, loop",
    "flood": "flood limit",
    "pause": "PAUSE frame",
    "bad source": "bad source address",
}
"""Reasons of a segment's counts of dropped frames, in words; others need none."""
_CODE = {PURE: "pure Python", COMPILED: "compiled"}


@click.command(short_help="Show state, ports and counts of functions.")
@guest_argument
@control_option
@click.option("--json", "as_json", is_flag=True, help="Print the server's answer as JSON.")
@click.option(
    "--prometheus",
    "as_prometheus",
    is_flag=True,
    help="Print the answer in Prometheus's text format.",
)
@click.option("--rate", is_flag=True, help="Show counts per second.")
@interval_option("Seconds between the two counts of --rate.")
def status(
    name: str | None,
    control: Path | None,
    as_json: bool,
    as_prometheus: bool,
    rate: bool,
    interval: float,
) -> None:
    """Show state, port and counts of the functions of the guest NAME, or of all guests of a lab.

    NAME defaults to the only guest or lab of `mlx5emu ps`, or without one to the only server.

    Rules are fault rules: `held` counts the events that they hold back, `in force` the effects that
    last. Host memory is what the server uses for the guest's objects, and its limit.

    Example: mlx5emu status dev --rate
    """
    with connect(control, name) as client:
        answer = client.status()
        if as_prometheus:
            click.echo(prometheus.text(answer), nl=False)
            return
        if rate:
            time.sleep(interval)
            answer = rates(answer, client.status())
    if as_json:
        click.echo(json.dumps(answer, indent=1))
        return
    screen, per = console(), "/s" if rate else ""
    code = _CODE.get(answer["code"], answer["code"])
    screen.print(f"mlx5emu {answer['mlx5emu']}, device code: {code}")
    for names in _TABLES:
        screen.print(_functions(answer["functions"], names, per))
    for segment in answer["segments"]:
        screen.print(_segment(segment))
    for one in answer["functions"]:
        if lost := one["counts"].get("lost_events"):
            screen.print(f"function {function_name(one)}: {lost:,.0f} events lost{per}, EQ overrun")
        for line in (*_adapter(one), _ledger(one["ledger"])):
            screen.print(Hanging(f"function {function_name(one)}: {line}"))


def _functions(functions: Sequence[Mapping[str, Any]], names: Sequence[str], per: str) -> Rows:
    """Return a table with one row for each function and the columns ``names``.

    ``per`` follows the titles of counts.
    """
    titles = {
        name: _TITLES.get(name, name.replace("_", " ")) + per * (name in _UNITS) for name in names
    }
    numbers = [title for name, title in titles.items() if name in _UNITS]
    table = Rows("function", *titles.values(), numbers=numbers)
    for one in functions:
        counts = one["counts"]
        cells = (
            _UNITS[name](counts[name]) if name in _UNITS else one_line(str(one[name]))
            for name in names
        )
        table.add(function_name(one), *cells)
    return table


def _segment(segment: Mapping[str, Any]) -> Rows:
    """Return a table of a segment's ports: link, counts, and dropped frames by reason."""
    titles = {name: _PORT_TITLES.get(name, name) for name in _PORT}
    numbers = [titles[name] for name in _PORT_COUNTS]
    table = Rows(*titles.values(), numbers=numbers, title=one_line(segment["segment"]))
    for port in segment["ports"]:
        dropped = ", ".join(
            f"{count:,} ({_REASONS.get(why, why)})" for why, count in port["dropped"].items()
        )
        counts = (f"{port[name]:,}" for name in _PORT_COUNTS)
        up = "up" if port["up"] else "down"
        table.add(one_line(port["port"]), up, *counts, one_line(dropped) or "-")
    return table


def _adapter(function: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about a function's driver, VFs, switch, SFs, steering drops and LAG."""
    if driver := function.get("driver"):
        yield f"driver: {one_line(driver)}"
    if vfs := function.get("vfs"):
        yield f"virtual functions: {vfs['enabled']} of {vfs['total']} enabled"
    if switch := function.get("switch"):
        yield f"embedded switch: {'the FDB forwards' if switch['decides'] else 'no FDB'}"
        for sf in switch["sfs"]:
            about = f"sfnum {sf['sfnum']}, {sf['state']}, {sf['objects']} objects"
            yield f"sub-function {sf['function_id']:#x}: {about}"
    for why, count in function.get("steering_entries", {}).items():
        yield f"steering entries: {one_line(why)}: {count:,} packets dropped"
    if lag := function.get("lag"):
        maps = (f"{affinity} by port {port}" for affinity, port in enumerate(lag["remap"], 1))
        about = "of switches" if lag["switches"] else "one vPort" if lag["vports"] else "two vPorts"
        yield f"LAG: affinity {', '.join(maps)}; {about}"


def _ledger(ledger: Mapping[str, Any]) -> str:
    """Return the host memory held for a function, with its limit, largest account first."""
    accounts = sorted(ledger["accounts"].items(), key=lambda account: -account[1])
    parts = ", ".join(f"{kind} {units.size(used)}" for kind, used in accounts)
    total = f"host memory {units.size(ledger['used'])} of {units.size(ledger['limit'])}"
    return total + f" ({parts})" * bool(parts)


def rates(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``after`` with counts per second since ``before``, and the interval in ``seconds``.

    A count that decreased, because objects were destroyed, has the rate 0.
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

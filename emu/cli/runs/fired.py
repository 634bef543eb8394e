"""Tells which faults have fired, which have changed nothing, and which have not come up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from emu.host.printable import one_line


def tell_idle(rules: Iterable[Mapping[str, Any]]) -> None:
    """Say which of a server's rules have had no effect so far, and why."""
    for rule in rules:
        for count in rule["counts"]:
            if count.get("without_effect"):
                _say(f"{rule['name']} has had no effect: {count['why']}")


def tell_unfired(control: Path) -> None:
    """Say which rules of a running server have not fired, and how many events they have matched.

    A server that has gone says nothing.
    """
    from emu.server.control.client import Client, ControlError

    try:
        with Client(control) as client:
            rules = client.rules()
    except ControlError:
        return
    for rule in rules:
        matched, fired = (sum(one[name] for one in rule["counts"]) for name in ("met", "fired"))
        if not fired:
            events = "no event" if not matched else f"{matched} events, none that it fires at"
            _say(f"{rule['name']} has not fired: it matched {events}")


def tell_fired(path: Path) -> None:
    """Say what a run's record has: nothing where there is no record that can be read."""
    from emu.device.faults import record
    from emu.host.user_error import UserError
    from emu.host.userfiles import read_infile

    try:
        text = read_infile(path, record.MAX_BYTES).decode(errors="replace")
        recorded = record.read(text, str(path))
    except (OSError, UserError, record.RecordError):
        _say(f"the record of the faults cannot be read: {path}")
        return
    fired = Counter(one.rule for one in recorded.fired)
    for name, why in dict.fromkeys(
        (one.rule, one.without_effect) for one in recorded.without_effect
    ):
        _say(f"{name} has had no effect: {why}")
    if fired:
        names = ", ".join(f"{name} {count} times" for name, count in fired.items())
        _say(f"faults that have fired: {names}: {path}")
    else:
        _say(f"no fault has fired: {path}")


def _say(text: str) -> None:
    click.echo(f"mlx5emu: {one_line(text)}", err=True)

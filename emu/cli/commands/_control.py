"""How commands find the server that they are about."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from emu.control.client import Client, ControlError, sockets

WIDE = 200
F = TypeVar("F", bound=Callable[..., Any])


def control_option(function: F) -> F:
    """Add --control to a command."""
    return click.option(
        "--control",
        type=click.Path(path_type=Path),
        metavar="SOCKET",
        help="The server's control socket. Default: that of the one guest that runs.",
    )(function)


def interval_option(what: str) -> Callable[[F], F]:
    """Add --interval, seconds, to a command; ``what`` says what they are."""
    return click.option(
        "--interval",
        type=click.FloatRange(0.1, 3600),
        default=1.0,
        show_default=True,
        metavar="S",
        help=what,
    )


def console() -> Console:
    """Standard output for tables, which are not cut short where nobody sees the edge.

    What stands in square brackets is text, not markup: names are what others made them.
    """
    width = None if sys.stdout.isatty() else WIDE
    return Console(width=width, markup=False, emoji=False, highlight=False)


def connect(path: Path | None) -> Client:
    """The server at ``path``, or the only one that there is. Raises ControlError."""
    if path is not None:
        return Client(path)
    alive = []
    for found in sockets():
        try:
            alive.append((found, Client(found)))
        except ControlError:
            continue
    if len(alive) == 1:
        return alive[0][1]
    for _, client in alive:
        client.close()
    if not alive:
        raise ControlError("no guest with emulated functions runs here; name one with --control")
    names = "\n  ".join(str(name) for name, _ in alive)
    raise ControlError(f"{len(alive)} guests run here; choose one with --control:\n  {names}")

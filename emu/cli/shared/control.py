"""How commands find the server that they are about."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from emu.cli.shared.names import complete_guest
from emu.guests.errors import LabError
from emu.guests.named import attach, running
from emu.host.printable import one_line
from emu.server.control.client import Client, ControlError, sockets

UNLIMITED = 1 << 16
"""Columns of what is no terminal: no line of ours is as long."""
F = TypeVar("F", bound=Callable[..., Any])


def control_option(function: F) -> F:
    """Add --control to a command."""
    return click.option(
        "--control",
        type=click.Path(path_type=Path),
        metavar="SOCKET",
        help="The server's control socket, in place of a guest's name.",
    )(function)


def guest_argument(function: F) -> F:
    """Add NAME to a command, the guest whose functions it is about."""
    return click.argument("name", required=False, metavar="[NAME]", shell_complete=complete_guest)(
        function
    )


def named(
    words: tuple[str, ...], control: Path | None, is_name: Callable[[str], bool]
) -> tuple[str | None, tuple[str, ...]]:
    """NAME in front of a command's other words, if it is there, and these words.

    With ``control`` there is none.
    """
    if control is None and words and is_name(words[0]):
        return words[0], words[1:]
    return None, words


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
    """Return standard output for tables; only a terminal has a width that they have to fit.

    What stands in square brackets is text, not markup: names are what others made them.
    """
    width = None if sys.stdout.isatty() else UNLIMITED
    return Console(width=width, markup=False, emoji=False, highlight=False)


def function_name(about: Mapping[str, Any]) -> str:
    """Return the name of a function in tables: its guest's name, if any, and its index."""
    guest = one_line(str(about.get("guest", "")))
    return f"{guest} {about['function']}" if guest else str(about["function"])


def connect(path: Path | None, name: str | None = None) -> Client:
    """Return a client of the server at ``path``, of a guest or lab, or of the only one that runs.

    A client of a lab's guest is limited to the functions of that guest. Raises ControlError and
    LabError.
    """
    if path is not None:
        if name is not None:
            raise click.UsageError("NAME or --control, not both")
        return Client(path)
    if name is not None:
        socket_path, guest = attach.control_of(name)
        return Client(socket_path, guest=guest)
    alive = []
    for socket_path in sockets():
        try:
            alive.append((socket_path, Client(socket_path)))
        except ControlError:
            continue
    if len(alive) == 1:
        return alive[0][1]
    for _, client in alive:
        client.close()
    if not alive:
        raise ControlError("no guest with emulated functions runs here; name one with --control")
    known = _names()
    names = "\n  ".join(known.get(path, f"--control {path}") for path, _ in alive)
    raise ControlError(f"{len(alive)} guests run here; choose one by its name:\n  {names}")


def _names() -> dict[Path, str]:
    """The names of the guests that run, by their servers' sockets; a lab has one for all."""
    names = {}
    for entry in running.entries():
        for guest in entry.guests[:1]:
            with contextlib.suppress(LabError):
                names[attach.control_of(f"{entry.name}/{guest}")[0]] = entry.name
    return names

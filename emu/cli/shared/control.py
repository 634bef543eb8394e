"""Finds and connects to the device server that a command addresses."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from emu.cli.shared.names import complete_guest
from emu.cli.shared.params import RealNumber
from emu.guests.errors import LabError
from emu.guests.named import attach, running
from emu.host.printable import one_line
from emu.host.session import is_of_this_session
from emu.server.control.client import Client, ControlError, sockets

UNLIMITED = 1 << 16
"""Width in columns if the output is not a terminal; longer than any line."""
F = TypeVar("F", bound=Callable[..., Any])


def control_option(function: F) -> F:
    """Add --control to a command."""
    return click.option(
        "--control",
        type=click.Path(path_type=Path),
        metavar="SOCKET",
        help="Control socket of the server, instead of a guest's name.",
    )(function)


def guest_argument(function: F) -> F:
    """Add NAME, the guest whose functions are addressed, to a command."""
    return click.argument("name", required=False, metavar="[NAME]", shell_complete=complete_guest)(
        function
    )


def named(
    words: tuple[str, ...], control: Path | None, is_name: Callable[[str], bool]
) -> tuple[str | None, tuple[str, ...]]:
    """Return NAME, if ``is_name`` accepts the first word, else None, and the other words.

    Raises UsageError for a NAME beside ``control``.
    """
    if not words or not is_name(words[0]):
        return None, words
    if control is not None:
        raise click.UsageError("use NAME or --control, not both")
    return words[0], words[1:]


def runs_as(name: str) -> bool:
    """Return whether a guest or lab named ``name`` runs."""
    with contextlib.suppress(LabError):
        running.resolve(name)
        return True
    return False


def interval_option(what: str) -> Callable[[F], F]:
    """Return a decorator that adds --interval, in seconds; ``what`` is its help."""
    return click.option(
        "--interval",
        type=RealNumber(0.1, 3600),
        default=1.0,
        show_default=True,
        metavar="S",
        help=what,
    )


def console() -> Console:
    """Return standard output for tables, with a limited width only on a terminal.

    Square brackets are printed as text, not as markup, because names can contain them.
    """
    width = None if sys.stdout.isatty() else UNLIMITED
    return Console(width=width, markup=False, emoji=False, highlight=False)


def function_name(about: Mapping[str, Any]) -> str:
    """Return the name of a function for tables: its guest's name, if any, and its index.

    A virtual function has its physical one's index and its own number, as in ``0.vf1``.
    """
    guest = one_line(str(about.get("guest", "")))
    vf = about.get("vf")
    name = vf["name"] if vf else str(about["function"])
    return f"{guest} {name}" if guest else name


def connect(path: Path | None, name: str | None = None) -> Client:
    """Return a client of the server at ``path``, of the guest or lab ``name``, or the only one.

    The client of a lab's guest addresses only the functions of that guest. Without ``path`` and
    ``name``, a server outside `mlx5emu ps`'s names counts only while no named guest or lab runs,
    and a server of another session never. Raises UsageError for both ``path`` and ``name``,
    ControlError if no server answers or several run, and LabError for an unknown name.
    """
    if path is not None:
        if name is not None:
            raise click.UsageError("use NAME or --control, not both")
        return Client(path)
    if name is not None:
        socket_path, guest = attach.control_of(name)
        return Client(socket_path, guest=guest)
    alive = dict(_alive())
    known = _names() if len(alive) > 1 else {}
    named_ones = [path for path in alive if path in known]
    choices = named_ones or list(alive)
    chosen = alive.pop(choices[0]) if len(choices) == 1 else None
    for client in alive.values():
        client.close()
    if chosen is not None:
        return chosen
    if not choices:
        others = servers_of_other_sessions()
        raise ControlError(
            "no guest with emulated functions runs; start one, or use --control SOCKET"
            + "".join(f"\n  of another session: --control {path}" for path in others)
        )
    what = "guests or labs" if named_ones else "servers"
    names = "\n  ".join(known.get(path, f"--control {path}") for path in choices)
    raise ControlError(f"{len(choices)} {what} run; choose one:\n  {names}")


def _alive(*, is_ours: bool = True) -> Iterator[tuple[Path, Client]]:
    """Yield the socket of each server of this session that answers, with a client to close.

    Without ``is_ours`` those of this user's other sessions are yielded instead.
    """
    for path in sockets():
        if is_of_this_session(path.parent) == is_ours:
            with contextlib.suppress(ControlError):
                yield path, Client(path)


def servers_of_other_sessions() -> list[Path]:
    """Return the control sockets of this user's servers in other sessions.

    Their guests have another runtime directory, so they have no names here.
    """
    found = []
    for path, client in _alive(is_ours=False):
        client.close()
        found.append(path)
    return found


def nameless_servers() -> list[Path]:
    """Return the control sockets of this session's servers that serve no guest of `mlx5emu ps`.

    A server of that kind belongs to `boot` or to another program. Commands reach it by
    ``--control``, or without a name while no named guest and no other server runs.
    """
    known, found = _names(), []
    for path, client in _alive():
        client.close()
        if path not in known:
            found.append(path)
    return found


def _names() -> dict[Path, str]:
    """Return the name of each running guest or lab by its server's control socket.

    Guests without functions, and those that do not answer, are left out.
    """
    names = {}
    for entry in running.entries():
        for guest in entry.guests[:1]:
            with contextlib.suppress(LabError):
                names[attach.control_of(f"{entry.name}/{guest}")[0]] = entry.name
    return names

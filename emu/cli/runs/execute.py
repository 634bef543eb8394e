"""Runs a command in a guest that runs, for the commands that do."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import click

from emu.cli.shared.names import complete_guest
from emu.cli.shared.output import feed, pass_on
from emu.cli.shared.words import command_words
from emu.guests.named.attach import at_command

F = TypeVar("F", bound=Callable[..., Any])


def command_options(function: F) -> F:
    """The command's words, and its options; they come as keywords for :func:`execute`."""
    for decorate in (
        click.argument("words", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED),
        click.argument("name", shell_complete=complete_guest),
        click.option("--timeout", type=float, metavar="S", help="End it when it takes longer."),
        click.option(
            "-t", "--tty", "terminal", is_flag=True, help="Give it a terminal; alone, a shell."
        ),
    ):
        function = decorate(function)
    return function


def execute(name: str, words: tuple[str, ...], terminal: bool, timeout: float | None) -> NoReturn:
    """Run it and exit with its status. Raises :class:`LabError`."""
    if timeout is not None and timeout <= 0:
        raise click.BadParameter("more than 0 s", param_hint="--timeout")
    words = command_words(words, "NAME")
    if not words and not terminal:
        raise click.UsageError("name a command, or say -t for a shell")
    environ = {"TERM": os.environ.get("TERM", "dumb")} if terminal else {}
    with at_command(name) as channel, _raw_terminal(terminal):
        argv = _with_terminal(words or ("bash", "-i")) if terminal else list(words)
        job = channel.start(shlex.join(words), argv, environ, has_input=True, sink=pass_on)
        threading.Thread(target=feed, args=(job,), name="stdin", daemon=True).start()
        status = job.wait(timeout)
    sys.exit(status)


def _with_terminal(words: tuple[str, ...]) -> list[str]:
    """The command on a pseudo terminal of the guest's, of this terminal's size."""
    columns, lines = shutil.get_terminal_size()
    inner = f"stty rows {lines} cols {columns}; exec {shlex.join(words)}"
    return ["script", "--quiet", "--return", "--command", inner, "/dev/null"]


@contextmanager
def _raw_terminal(is_requested: bool) -> Iterator[None]:
    """Leave every key to the guest, Ctrl-C as well."""
    if not is_requested or not sys.stdin.isatty():
        yield
        return
    settings = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)

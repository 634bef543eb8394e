"""Runs a command in a running guest, for `exec`, `lab exec` and `ssh --proxy`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from emu.cli.shared.names import complete_guest
from emu.cli.shared.output import feed, forward
from emu.cli.shared.params import SECONDS
from emu.cli.shared.words import command_words
from emu.guests.errors import LabError
from emu.guests.named.attach import at_command
from emu.guests.named.background import program_check, start_in_background
from emu.guests.named.placing import in_share_if_mounted, placed
from emu.guests.named.running import arch_of, share_of
from emu.guests.share import NOT_EXECUTABLE, NOT_FOUND, why_foreign

F = TypeVar("F", bound=Callable[..., Any])

_TIMEOUT = 60.0
"""Time limit of the check of a program, in seconds."""


def command_options(function: F) -> F:
    """Add COMMAND and its options to a command, as keywords for :func:`execute`."""
    for decorate in (
        click.argument("words", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED),
        click.argument("name", shell_complete=complete_guest),
        click.option(
            "--timeout",
            type=SECONDS,
            metavar="S",
            help="End COMMAND after S seconds.",
        ),
        click.option(
            "-d",
            "--detach",
            is_flag=True,
            help="Start COMMAND in the background, with a log in the guest, and return.",
        ),
        click.option(
            "-t",
            "--tty",
            "terminal",
            is_flag=True,
            help="Run COMMAND on a terminal; without COMMAND, a shell.",
        ),
        click.option("--user", metavar="USER", help="Run COMMAND as USER instead of root."),
        click.option(
            "--env",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set an environment variable; may be repeated.",
        ),
        click.option(
            "--cwd",
            metavar="DIR",
            help="Run COMMAND in DIR, relative to the shared directory, or else to root's home.",
        ),
    ):
        function = decorate(function)
    return function


def execute(
    name: str,
    words: tuple[str, ...],
    terminal: bool,
    timeout: float | None,
    cwd: str | None = None,
    settings: tuple[str, ...] = (),
    user: str | None = None,
    detach: bool = False,
) -> NoReturn:
    """Run ``words`` in the guest ``name`` and exit with its status; never return.

    With ``detach`` start it in the background and exit with 0, or with the status of a program that
    the guest does not have. Standard input is forwarded. Raises
    UsageError or BadParameter for wrong options, and :class:`LabError`, also after ``timeout``
    seconds.
    """
    words = command_words(words, "NAME")
    if not words and not terminal:
        raise click.UsageError("give a command, or -t for a shell")
    if detach and (terminal or timeout is not None):
        raise click.UsageError("--detach takes neither --tty nor --timeout")
    for setting in settings:
        if setting.find("=") < 1:
            raise click.BadParameter(f"{setting!r} is not NAME=VALUE", param_hint="--env")
    share = share_of(name)
    if words and (why := why_foreign(words[0], share, arch_of(name), cwd)):
        error = LabError(why)
        error.status = NOT_EXECUTABLE
        raise error

    def place(argv: Sequence[str]) -> list[str]:
        inner = placed(argv, cwd=cwd, settings=settings)
        return placed(inner if share is None else in_share_if_mounted(inner), user=user)

    if detach:
        status = _detach(name, words, place)
        _tell(status, words, share, cwd)
        sys.exit(status)
    environ = {"TERM": os.environ.get("TERM", "dumb")} if terminal else {}
    with at_command(name) as channel, _raw_terminal(terminal):
        argv = place(words or _shell())
        argv = _with_terminal(argv) if terminal else argv
        job = channel.start(shlex.join(words), argv, environ, has_input=True, sink=forward)
        threading.Thread(target=feed, args=(job,), name="stdin", daemon=True).start()
        status = job.wait(timeout)
    _tell(status, words, share, cwd)
    sys.exit(status)


def _tell(status: int, words: Sequence[str], share: Path | None, cwd: str | None) -> None:
    """Print how a command can be run that the guest did not find or that is not executable."""
    if words and status in (NOT_EXECUTABLE, NOT_FOUND):
        from emu.cli.options.place import tell_not_run  # imports the options of guests

        tell_not_run(status, words, share, cwd)


def _detach(name: str, words: Sequence[str], place: Callable[[Sequence[str]], list[str]]) -> int:
    """Start ``words`` in the background; print the commands that show its output and end it.

    ``place`` returns words with their directory, environment and user. Return 0, or the status of a
    program, directory or user that the guest does not have, after its error.
    """
    with at_command(name) as channel:
        check = place(program_check(words[0]))
        if status := channel.start(words[0], check, {}, sink=forward).wait(_TIMEOUT):
            return status
        job = start_in_background(channel, place(words), words[0])
    click.echo(f"{shlex.join(words)} runs in {name} as process {job.group}")
    click.echo(f"output: mlx5emu exec {name} -- tail -n +1 -f {job.log}")
    click.echo(f"to end it: mlx5emu exec {name} -- kill -- -{job.group}")
    return 0


def _shell() -> list[str]:
    """Return the words of a shell, which ends with standard input even if that is no terminal.

    Readline would lose an end of input that comes before its first prompt: the kernel's terminal
    turns it into a NUL when readline leaves canonical mode.
    """
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    return ["bash", "-i"] if is_terminal else ["bash", "--noediting", "-i"]


def _with_terminal(words: Sequence[str]) -> list[str]:
    """Return the command that runs ``words`` on a pty of the guest, of this terminal's size."""
    columns, lines = shutil.get_terminal_size()
    inner = f"stty rows {lines} cols {columns}; exec {shlex.join(words)}"
    return ["script", "--quiet", "--return", "--command", inner, "/dev/null"]


@contextmanager
def _raw_terminal(is_requested: bool) -> Iterator[None]:
    """Put the terminal into raw mode while the body runs; Ctrl-C is sent to the guest, too."""
    if not is_requested or not sys.stdin.isatty():
        yield
        return
    settings = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)

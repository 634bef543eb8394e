"""The command line, ``mlx5emu COMMAND``.

Every module in a room of :mod:`emu.cli.commands` whose name has no leading underscore is a command:
it defines a click command of its own name, or one named ``command``. Nothing else has to know about
it. A module is imported when its command is used, so a heavy one does not slow down the others.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import logging
import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import click

import emu.cli.commands
from emu.host.user_error import UserError

logger = logging.getLogger(__name__)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
INTERRUPTED = 130  # what a shell gives for a command that Ctrl-C ended


@functools.cache
def _modules() -> dict[str, str]:
    """The module of each command, which is not imported for it, by the command's name."""
    modules = {}
    for module in pkgutil.walk_packages(emu.cli.commands.__path__, "emu.cli.commands."):
        name = module.name.rpartition(".")[2]
        if not module.ispkg and not name.startswith("_"):
            modules[name.replace("_", "-")] = module.name
    return modules


class CommandGroup(click.Group):
    """The commands, found by their modules; failures end as one line and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, without importing them."""
        return sorted(_modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None for an unknown one."""
        module = _modules().get(cmd_name)
        if module is None:
            return None
        members = vars(importlib.import_module(module))
        command = members.get("command") or members[module.rpartition(".")[2]]
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the words begin with. Raises UsageError, with near names."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            from emu.near import near  # which only a mistake needs

            ctx.fail(f"No such command {name!r}{near(name, _modules())}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            logger.debug("where it happened", exc_info=True)
            _fail(str(error), error.status, error.detail())
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # Whoever read our output has gone; the interpreter must not try to flush the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as error:
            if error.filename is None and error.errno not in _FULL:
                raise
            logger.debug("where it happened", exc_info=True)
            what = error.filename or "a file cannot be written; mlx5emu doctor shows the cache"
            _fail(f"{what}: {error.strerror}", 1)


def _fail(message: str, status: int, detail: str = "") -> NoReturn:
    from emu.host.printable import printable

    if detail:
        click.echo(printable(detail), err=True)
    click.echo(f"mlx5emu: {printable(message)}", err=True)
    sys.exit(status)


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM, and a terminal that closes, end us as Ctrl-C does: guests and files go with us.

    A signal that whoever started us has had ignored (nohup) stays ignored. A program that runs a
    command in another thread than its first one keeps its signals: Python sets them there alone.
    """
    is_first = threading.current_thread() is threading.main_thread()
    signals = (signal.SIGTERM, signal.SIGHUP) if is_first else ()
    ours = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def _say_version(ctx: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        from emu.version import code, version  # which take a while to import

        click.echo(f"mlx5emu, version {version()}, {code()}")
        ctx.exit()


@click.command(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", count=True, help="Say what is being done; twice for details.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version and exit.",
)
def main(verbose: int) -> None:
    """An emulated mlx5 adapter, and Linux guests that use it."""
    click.get_current_context().with_resource(_ended_in_order())
    if verbose:
        level = logging.INFO if verbose == 1 else logging.DEBUG
        logging.basicConfig(level=level, format="%(levelname).1s %(name)s: %(message)s")

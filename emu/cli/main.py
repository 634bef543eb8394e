"""The command line, ``mlx5emu COMMAND``.

Each module in a package below :mod:`emu.cli.commands` whose name has no leading underscore is a
command. The module defines a click command of its own name, or one named ``command``; no list of
commands exists. A module is imported when its command is used, which keeps the others fast.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import click

from emu.cli import commands
from emu.compiled import loading
from emu.host.user_error import UserError

logger = logging.getLogger(__name__)

loading.install()  # before a command imports the device
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
INTERRUPTED = 130  # a shell's status for a command that Ctrl-C ended


class CommandGroup(click.Group):
    """Finds commands by their modules, and ends failures with one line and an exit status."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the program, as click's does, also with a closed standard output or error."""
        _open_closed_outputs()
        return super().main(*args, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, without importing them."""
        return sorted(commands.modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command ``cmd_name``; None if no module has that name."""
        module = commands.modules().get(cmd_name)
        if module is None:
            return None
        members = vars(importlib.import_module(module))
        command = members.get("command") or members[module.rpartition(".")[2]]
        assert isinstance(command, click.Command)
        from emu.cli.shared.help_text import format_help  # only a command needs it

        return format_help(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the first word, its command and the other words.

        Raises UsageError, with similar names, for an unknown command, also under resilient parsing.
        A first word that begins with "-" is left to click.
        """
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            from emu.cli.shared.group import fail_unknown  # only a mistake needs it

            fail_unknown(ctx, name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help, with a section for each package of commands."""
        from emu.cli.sections import help_of  # cloup: 40 ms, which only help needs

        return help_of(self, ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; convert a failure to an error message and an exit status.

        For an unknown option, click's error suggests only options that the command's help lists.
        UserError exits with its own status, Ctrl-C with 130, a closed pipe and an OSError of a file
        with 1. Other exceptions pass with their traceback.
        """
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.ctx is None:
                raise
            listed = _listed_options(error.ctx)
            raise click.NoSuchOption(
                error.option_name, possibilities=listed, ctx=error.ctx
            ) from None
        except UserError as error:
            logger.debug("traceback of the failure", exc_info=True)
            _fail(str(error), error.status, error.detail())
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # The reader of standard output has exited: the interpreter must not flush the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as error:
            if error.filename is None and error.errno not in _FULL:
                raise
            logger.debug("traceback of the failure", exc_info=True)
            path = error.filename or "a file cannot be written; mlx5emu doctor shows the cache"
            _fail(f"{path}: {error.strerror}", 1)


def _open_closed_outputs() -> None:
    """Let /dev/null stand for a standard output or error that the parent process has closed.

    Python has None for it, which no code here and in libraries expects.
    """
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _listed_options(ctx: click.Context) -> list[str]:
    """Return the long options that the help of the command of ``ctx`` lists."""
    options = (param for param in ctx.command.get_params(ctx) if isinstance(param, click.Option))
    names = (name for one in options if not one.hidden for name in one.opts + one.secondary_opts)
    return [name for name in names if name.startswith("--")]


def _fail(message: str, status: int, detail: str = "") -> NoReturn:
    """Print detail and message to standard error and exit the process with ``status``."""
    from emu.cli.shared.notice import notice
    from emu.host.printable import printable

    if detail:
        click.echo(printable(detail), err=True)
    notice(message)
    sys.exit(status)


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the process like Ctrl-C while the body runs, with 128 + signal.

    Guests are stopped and temporary files are removed. A signal that the parent has set to ignored
    (nohup) stays ignored. In a thread other than the main thread no handler is set, because Python
    accepts handlers in the main thread only.
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
        from emu.version import code_line, version  # slow to import

        click.echo(f"mlx5emu, version {version()}, {code_line()}")
        ctx.exit()


@click.command(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", count=True, help="Log each step; repeat for details.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version and exit.",
)
def main(verbose: int) -> None:
    """Emulate an mlx5 adapter, and run Linux guests that use it.

    `mlx5emu COMMAND --help` describes a command, `mlx5emu guide` lists the pages of the guide.

    Example: mlx5emu run -- ibv_devinfo
    """
    click.get_current_context().with_resource(_ended_in_order())
    if verbose:
        level = logging.INFO if verbose == 1 else logging.DEBUG
        logging.basicConfig(level=level, format="%(levelname).1s %(name)s: %(message)s")

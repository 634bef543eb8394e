"""``--gdb``, for what boots a guest; ``--dmesg`` and ``--ftrace`` for the command that waits."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from emu.cli.shared.progress import working
from emu.cli.shared.stored import stored_events
from emu.guests import Guest
from emu.host.printable import printable

F = TypeVar("F", bound=Callable[..., Any])

_A_WEEK = 7 * 86400.0
"""How long a guest in a debugger may give no sign of life."""


@dataclass(frozen=True)
class Debugging:
    """What the options say."""

    gdb: str | None
    dmesg: bool = False
    ftrace: tuple[str, ...] = ()

    @property
    def traces_kernel(self) -> bool:
        """Whether something of the kernel's goes into the trace."""
        return self.dmesg or bool(self.ftrace)


def debug_options(function: F) -> F:
    """Add the options; the command gets them as ``debugging``, a :class:`Debugging`."""

    @functools.wraps(function)
    def collected(
        *args: object, gdb: str | None, dmesg: bool, ftrace: tuple[str, ...], **rest: object
    ) -> Any:
        return function(*args, debugging=Debugging(gdb, dmesg, ftrace), **rest)

    for option in (
        click.option(
            "--ftrace",
            multiple=True,
            metavar="FUNCTIONS",
            help="Put the calls of these kernel functions into the trace, such as 'mlx5_*'; may be "
            "repeated.",
        ),
        click.option("--dmesg", is_flag=True, help="Put the kernel's log into the trace."),
        gdb_option,
    ):
        collected = option(collected)
    return cast("F", collected)


def gdb_option(function: F) -> F:
    """Add --gdb; the command gets it as ``gdb``, for :class:`Debugging`."""
    return click.option(
        "--gdb",
        type=click.Choice(["load", "run"]),
        help="Let gdb connect, and print the line to type. With load the guest waits for it "
        "when the driver is loaded and has not taken a function; with run it goes on.",
    )(function)


def with_debugging(choices: dict[str, object], requested: Debugging) -> dict[str, object]:
    """The guest's choices: who wants to see the first probe has it held back."""
    if requested.traces_kernel and choices["trace"] is None:
        raise click.UsageError("--dmesg and --ftrace add to the file of --trace")
    holds = bool(requested.ftrace) or requested.gdb == "load"
    if holds and not choices["probe"]:
        raise click.UsageError("--ftrace and --gdb load see the driver's first probe themselves")
    choices = choices | {"hold_probe": holds, "gdb": requested.gdb is not None}
    if requested.gdb is not None:
        choices["hang_timeout"] = _A_WEEK
    return choices


class Debugger:
    """Does what the options say, around a command in the guest."""

    def __init__(self, requested: Debugging, trace: Path | None) -> None:
        self._requested = requested
        self._trace = trace
        self._kernel: Any = None
        if requested.traces_kernel:
            from emu.guests.guest.kernel_trace import KernelTrace

            self._kernel = KernelTrace(requested.ftrace, _say)

    @contextlib.contextmanager
    def watching(self, guest: Guest) -> Iterator[None]:
        """Take what the kernel says while the body runs."""
        if self._kernel is not None:
            self._kernel.begin(guest)
        try:
            if self._requested.gdb is not None:
                invite(self._requested.gdb, await_gdb(guest, self._requested.gdb))
            if guest.options.hold_probe:
                guest.probe()
            yield
        finally:
            if self._kernel is not None:
                self._kernel.end(guest)

    def finish(self) -> None:
        """To be called when the guest has ended, and the trace with it."""
        if self._kernel is not None and self._trace is not None and self._trace.exists():
            device = (event for _, event in stored_events(str(self._trace)))
            with working(f"adding the kernel's lines to {self._trace}"):
                self._kernel.write(self._trace, device)


def await_gdb(guest: Guest, when: str) -> Path:
    """Write gdb's commands, and return their file; with "load" the guest waits for gdb now."""
    from emu.guests.guest.symbols import script

    path = script(guest)
    if when == "load":
        guest.control("stop")
    return path


def invite(when: str, commands: Path) -> None:
    """Tell the user how to start gdb."""
    if when == "load":
        _say("the guest waits: the driver is loaded, and has not taken a function")
    _say(f"gdb -x {commands}")


def _say(text: str) -> None:
    click.echo(f"mlx5emu: {printable(text)}", err=True)

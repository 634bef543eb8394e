"""``--gdb``, for commands that boot a guest; ``--dmesg`` and ``--ftrace``, for ``run``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from emu.cli.options.groups import KERNEL, TRACES, grouped_option
from emu.cli.shared.notice import notice
from emu.cli.shared.params import NearChoice
from emu.cli.shared.progress import working
from emu.cli.shared.stored import stored_events
from emu.guests import Guest
from emu.guests.errors import ServerError

F = TypeVar("F", bound=Callable[..., Any])

_A_WEEK = 7 * 86400.0
"""Seconds that a guest in a debugger may take to answer a ping."""


@dataclass(frozen=True)
class Debugging:
    """Values of the debugging options."""

    gdb: str | None
    dmesg: bool = False
    ftrace: tuple[str, ...] = ()

    @property
    def traces_kernel(self) -> bool:
        """Whether the trace gets the kernel's log or function calls."""
        return self.dmesg or bool(self.ftrace)


def debug_options(function: F) -> F:
    """Add the options to a command, which gets them as ``debugging``, a :class:`Debugging`."""

    @functools.wraps(function)
    def collected(
        *args: object, gdb: str | None, dmesg: bool, ftrace: tuple[str, ...], **rest: object
    ) -> Any:
        return function(*args, debugging=Debugging(gdb, dmesg, ftrace), **rest)

    for option in (
        grouped_option(
            TRACES,
            "--ftrace",
            multiple=True,
            metavar="FUNCTIONS",
            help="Add calls of these kernel functions to --trace, such as 'mlx5_*'; may be "
            "repeated.",
        ),
        grouped_option(
            TRACES, "--dmesg", is_flag=True, help="Add the kernel's log to the file of --trace."
        ),
        gdb_option,
    ):
        collected = option(collected)
    return cast("F", collected)


def gdb_option(function: F) -> F:
    """Add --gdb to a command, which gets it as ``gdb``, for :class:`Debugging`."""
    return grouped_option(
        KERNEL,
        "--gdb",
        type=NearChoice(["load", "run"]),
        help="Let gdb connect, and print its command line. With load, the guest stops until gdb "
        "connects, after the driver is loaded and before the first probe; with run it goes on.",
    )(function)


def with_debugging(choices: dict[str, object], requested: Debugging) -> dict[str, object]:
    """Return the guest's options; ``--ftrace`` and ``--gdb load`` hold back the first probe.

    With ``--gdb`` the guest may be silent for a week. Raises UsageError for options that exclude
    each other.
    """
    if requested.traces_kernel and choices["trace"] is None:
        raise click.UsageError("--dmesg and --ftrace need --trace FILE")
    trace = choices["trace"]
    if requested.traces_kernel and isinstance(trace, Path) and trace.is_fifo():
        why = "--dmesg and --ftrace add to a file after the run"
        raise click.UsageError(f"{trace} is a pipe: {why}")
    holds = bool(requested.ftrace) or requested.gdb == "load"
    if holds and not choices["probe"]:
        raise click.UsageError("--ftrace and --gdb load start the first probe: drop --no-probe")
    choices = choices | {"hold_probe": holds, "gdb": requested.gdb is not None}
    if requested.gdb is not None:
        choices["hang_timeout"] = _A_WEEK
    return choices


class Debugger:
    """Attaches gdb and collects the kernel's trace while a command runs in the guest."""

    def __init__(self, requested: Debugging, trace: Path | None) -> None:
        self._requested = requested
        self._trace = trace
        self._kernel: Any = None
        if requested.traces_kernel:
            from emu.guests.guest.kernel_trace import KernelTrace

            self._kernel = KernelTrace(requested.ftrace, notice)

    @contextlib.contextmanager
    def watching(self, guest: Guest) -> Iterator[None]:
        """Trace the kernel while the body runs; first print gdb's command and probe a held driver.

        Log and calls are collected at the end, also when the body raises. Raises LabError if the
        kernel cannot trace.
        """
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
        """Add the kernel's events to the trace file; call this after the guest has stopped.

        Do nothing without ``--dmesg`` and ``--ftrace``, or without a trace file. A device such as
        /dev/null gets the kernel's events alone. Raises ServerError, as for a truncated trace, if
        the file cannot be written.
        """
        trace = self._trace
        if self._kernel is None or trace is None or not trace.exists():
            return
        stored = stored_events(str(trace)) if trace.is_file() else ()
        with working(f"adding the kernel's events to {trace}"):
            try:
                self._kernel.write(trace, (event for _, event in stored))
            except OSError as error:
                raise ServerError(f"{trace}: {error.strerror}") from error


def await_gdb(guest: Guest, when: str) -> Path:
    """Write gdb's commands to a file and return its path; with "load" stop the guest for gdb.

    gdb is not awaited here. Raises LabError for a guest without ``gdb``.
    """
    from emu.guests.guest.symbols import script

    path = script(guest)
    if when == "load":
        guest.control("stop")
    return path


def invite(when: str, commands: Path) -> None:
    """Print the command line that starts gdb; gdb is not started."""
    if when == "load":
        notice("the guest is stopped: the driver is loaded and has probed no function")
    notice(f"gdb -x {commands}")

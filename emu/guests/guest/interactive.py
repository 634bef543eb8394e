"""A guest with a shell in the user's terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

from emu.guests import cache
from emu.guests.archive.bootstrap import Progress
from emu.guests.errors import GuestError, GuestPanicError, LabError, ServerError
from emu.guests.guest import console
from emu.guests.guest.console_log import ConsoleLog
from emu.guests.guest.process import how_ended, tied
from emu.guests.guest.server import DeviceServer
from emu.guests.machine.command_line import arguments
from emu.guests.machine.launch import Terminal, machine_for
from emu.guests.options import GuestOptions
from emu.guests.workdir import work_directory


class Boot:
    """An interactive guest: first prepared, which can take a while, then run."""

    def __init__(self, options: GuestOptions) -> None:
        self._options = options
        self._logs = cache.new_run_dir()
        self._open = contextlib.ExitStack()
        self._failures: list[ServerError] = []
        self._command: list[str] = []
        self._console: ConsoleLog | None = None

    def __enter__(self) -> Boot:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def prepare(
        self, progress: Progress | None = None, on_wait: Callable[[], None] | None = None
    ) -> None:
        """Build and fetch missing files, then start the server; QEMU is started by :meth:`run`.

        Raises LabError, also for a fault plan that begins once the driver is up.
        """
        self._console = log = ConsoleLog(self._logs / "console.log")
        self._open.callback(log.close)
        work = self._open.enter_context(work_directory())
        machine = machine_for(
            self._options,
            work,
            functions=self._start_server(work),
            console_log=log.path,
            terminal=_terminal(),
            progress=progress,
            on_wait=on_wait,
        )
        self._command = tied(arguments(machine))

    def run(self) -> None:
        """Connect the terminal to the guest until the guest ends; return if it powered off.

        Raises :class:`GuestPanicError` for a panic, ServerError if the server ended, and GuestError
        for another end of QEMU or without :meth:`prepare`.
        """
        log = self._console
        if log is None:
            raise GuestError("the guest has not been prepared")
        with (
            _restored_terminal(),
            subprocess.Popen(self._command, pass_fds=(log.fd,)) as process,
        ):
            log.started()
        log.close()
        status = process.returncode
        reason = console.panic_reason(console.read(self._logs / "console.log"))
        if reason is not None:
            raise GuestPanicError(f"the guest panicked: {reason}")
        if self._failures:
            raise self._failures[0]
        if status != 0:
            raise GuestError(f"QEMU {how_ended(status)}")

    def _start_server(self, work: Path) -> tuple[Path, ...]:
        """Start the server and return its sockets, one for each function; empty without devices.

        Raises LabError for a fault plan that begins once the driver is up.
        """
        if not self._options.devices:
            return ()
        log = self._logs / "server.log"
        server = DeviceServer.of_guest(self._options, work, log, self._failures.append)
        if server.has_late_plan:
            raise LabError(
                f"{self._options.faults} begins once the driver is up, which is not reported while"
                " the guest has the terminal: boot without it, then, in another terminal, run"
                " mlx5emu fault load"
            )
        self._open.callback(server.stop)
        server.start()
        return server.sockets


def _terminal() -> Terminal:
    """Return TERM and the size of the user's terminal: ``dumb`` and 24 x 80 where unknown."""
    try:
        columns, lines = os.get_terminal_size(sys.stdin.fileno())
    except OSError:  # standard input is not a terminal
        columns, lines = 80, 24
    return Terminal(os.environ.get("TERM", "dumb"), lines, columns)


@contextlib.contextmanager
def _restored_terminal() -> Iterator[None]:
    """Ignore SIGINT while the body runs, so that Ctrl-C reaches the guest.

    Restore the signal and the terminal's settings afterwards, even if QEMU is killed.
    """
    settings = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if settings is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)

"""Starts, connects to and ends the processes of a guest: QEMU and the server of its functions."""

from __future__ import annotations

import contextlib
import logging
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from emu.guests import cache
from emu.guests.archive.bootstrap import Progress
from emu.guests.errors import GuestError, GuestPanicError, GuestStoppedError, ServerError
from emu.guests.guest import console
from emu.guests.guest.console_log import ConsoleLog
from emu.guests.guest.process import ChildListener, how_ended, stop, stop_group, tied, work_seconds
from emu.guests.guest.saved_boot import FROM_THE_START, beginning, resume
from emu.guests.guest.server import DeviceServer
from emu.guests.guest.watch import CANNOT_RUN, StayCallbacks, Watch
from emu.guests.machine import accel
from emu.guests.machine.command_line import arguments
from emu.guests.machine.launch import machine_for
from emu.guests.machine.qmp import Qmp
from emu.guests.options import GuestOptions
from emu.guests.workdir import work_directory

logger = logging.getLogger(__name__)

BOOTING = "booting the guest"
"""Activity that a :data:`Progress` is called with after all builds and downloads."""
CONNECT_TIMEOUT = 60.0
EXIT_TIMEOUT = 10.0  # seconds for QEMU to end after its guest


@dataclass(frozen=True)
class Served:
    """Functions that another process serves: their sockets, its control socket, its log."""

    sockets: tuple[Path, ...]
    control: Path | None
    log: Path | None = None


class Vm:
    """The processes of one guest and their files: QEMU, and the server of its functions.

    ``logs`` outlives the guest, with ``console.log``, ``qemu.log`` and ``server.log``.
    ``on_server_end`` is called, from another thread, when the server ends by itself. ``stay`` keeps
    a guest that panics, powers off or reboots, and receives those events.
    """

    leads_group = False
    """Whether the process leads a process group, which ends with it."""
    program = "QEMU"
    """Name of the program that runs the guest."""

    def __init__(
        self,
        options: GuestOptions,
        on_server_end: Callable[[ServerError], None],
        served: Served | None = None,
        stay: StayCallbacks | None = None,
    ) -> None:
        self.logs = cache.new_run_dir()
        self._served = served
        self._options = options
        self._on_server_end = on_server_end
        self._open = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._server: DeviceServer | None = None
        self._qmp: Qmp | None = None
        self._console: ConsoleLog | None = None
        self._beginning = FROM_THE_START
        self.is_emulated = True
        """Whether QEMU emulates the processors."""
        self.is_doubted = False
        """Whether KVM may not boot it, see :func:`emu.guests.machine.accel.is_doubted`."""
        self.can_retest = False
        """Whether that answer is not certain, so that `mlx5emu doctor` tests KVM again."""
        self._stay = stay
        self._watch: Watch | None = None
        self.gdb_socket: Path | None = None
        """Socket on which QEMU accepts a debugger, if any."""

    def start(
        self, progress: Progress | None = None, on_wait: Callable[[], None] | None = None
    ) -> socket.socket:
        """Start the server, if any, then the guest; return the connection to the guest's port.

        The guest is not up yet. Raises LabError of a failed build, ServerError, or GuestError. The
        caller must call :meth:`stop` even after an error.
        """
        self._tell_booting(progress)
        work = self._open.enter_context(work_directory())
        functions = self._start_server(work)
        self._console = log = ConsoleLog(self.logs / "console.log")
        self._open.callback(log.close)
        return self._boot(work, functions, log, progress, on_wait)

    def _boot(
        self,
        work: Path,
        functions: tuple[Path, ...],
        log: ConsoleLog,
        progress: Progress | None,
        on_wait: Callable[[], None] | None,
    ) -> socket.socket:
        """Start QEMU, from a saved boot if possible; return the connection to the guest's port.

        Raises LabError of a failed build, GuestError when QEMU does not connect or ends.
        """
        control = self._open.enter_context(ChildListener(work / "qmp"))
        port = self._open.enter_context(ChildListener(work / "port"))
        if self._options.dump is not None or self._stay is not None:
            self._watch = self._new_watch(work)
        if self._options.gdb:
            self.gdb_socket = work / "gdb"
        machine = machine_for(
            self._options,
            work,
            functions=functions,
            control=control.path,
            port=port.path,
            events=None if self._watch is None else self._watch.control,
            gdb=self.gdb_socket,
            console_log=log.path,
            progress=progress,
            on_wait=on_wait,
        )
        self.is_emulated = machine.accelerator != "kvm"
        self.is_doubted = accel.is_doubted(machine.accelerator, machine.qemu)
        self.can_retest = self.is_doubted and not accel.is_certain(machine.qemu)
        if self._watch is None and not self.is_emulated:
            self._watch = self._new_watch(work)
            machine = replace(machine, events=self._watch.control)
        self._beginning = beginning(self._options, machine, progress, on_wait)
        boot = self._beginning.boot
        machine = replace(machine, is_resumed=boot is not None)
        self._tell_booting(progress)
        process = self._start_process(arguments(machine), log)
        if self._watch is not None:
            self._watch.start(process)
        try:
            self._qmp = Qmp(control.accept(process, CONNECT_TIMEOUT))
            self._open.callback(self._qmp.close)
            connection = self._open.enter_context(port.accept(process, CONNECT_TIMEOUT))
            if boot is not None:
                resume(self._qmp, connection, boot, machine.settings)
        except OSError as error:
            raise self.why_ended() from error
        return connection

    def _new_watch(self, work: Path) -> Watch:
        """Return a watch, not yet started, that :meth:`stop` closes."""
        watch = Watch(self._options.dump, work, lambda: self.console, self._stay)
        self._open.callback(watch.close)
        return watch

    @property
    def work_seconds(self) -> float | None:
        """CPU seconds of the guest's process (:func:`emu.guests.guest.process.work_seconds`)."""
        return None if self._process is None else work_seconds(self._process.pid)

    def note_up(self) -> None:
        """Record that the guest has booted."""
        self._beginning.note_up()

    def stop(self) -> None:
        """End the processes at once. May be called twice."""
        self._open.close()

    def control(self, command: str, **arguments: object) -> object:
        """Run a QMP command and return its result.

        Raises GuestError when not running or refused.
        """
        if self._qmp is None:
            raise GuestError("the guest is not running")
        return self._qmp.execute(command, **arguments)

    @property
    def control_socket(self) -> Path:
        """The server's control socket. Raises GuestError for a guest without functions."""
        if self._served is not None and self._served.control is not None:
            return self._served.control
        if self._server is None:
            raise GuestError("the guest has no functions")
        return self._server.control

    def arm_faults(self) -> None:
        """Start a fault plan that waits for the driver, which is now up; do nothing without one."""
        if self._server is not None:
            self._server.arm()

    def kill_server(self) -> None:
        """Kill the server without cleanup; ``on_server_end`` is not called.

        Raises GuestError for a guest without its own server.
        """
        if self._server is None:
            raise GuestError("the guest has no functions")
        self._server.kill()

    @property
    def log_files(self) -> dict[str, Path]:
        """Its logs: ``console`` and ``qemu``, which need not exist, and ``server``.

        ``server`` is the shared server's log if another process serves the functions and has one;
        else the own server.log once that file exists. Otherwise the key is missing.
        """
        own = self.logs / "server.log"
        server = (own if own.exists() else None) if self._served is None else self._served.log
        logs = {"console": self.logs / "console.log", "qemu": self.logs / "qemu.log"}
        return logs if server is None else logs | {"server": server}

    @property
    def console(self) -> str:
        """The console's output, limited in size by :mod:`emu.guests.guest.console_log`."""
        if self._console is not None:
            self._console.flush()
        return console.read(self.logs / "console.log")

    def why_ended(self) -> GuestError:
        """Return (not raise) the error of a guest that has ended; wait up to 10 s for its process.

        The error is GuestPanicError for a panic in the console, else GuestStoppedError: KVM cannot
        run the guest, its init failed or it powered off for status 0, otherwise the status and
        QEMU's last line.
        """
        status: int | None = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(EXIT_TIMEOUT)
        tail = console.tail(self.console)
        reason = console.panic_reason(self.console)
        if reason is not None:
            outcome = f"; {self._watch.outcome}" if self._watch and self._watch.outcome else ""
            return GuestPanicError(f"the guest panicked: {reason}{outcome}", tail)
        if self._watch is not None and self._watch.cannot_run:
            return GuestStoppedError(CANNOT_RUN, tail)
        if status == 0:
            why = console.why_off(self.console, "the guest powered off or rebooted")
            return GuestStoppedError(why, tail)
        log = console.read(self.logs / "qemu.log").strip().splitlines()
        said = f": {log[-1]}" if log else ""
        return GuestStoppedError(f"{self.program} {how_ended(status)}{said}", tail)

    def _tell_booting(self, progress: Progress | None) -> None:
        if progress is not None and not self._options.verbose:  # otherwise its console is shown
            progress(BOOTING, 0, 0)

    def _start_server(self, work: Path) -> tuple[Path, ...]:
        """Start the server and return its sockets; empty without devices.

        Functions that another process serves are not started: their sockets are returned.
        """
        if self._served is not None:
            return self._served.sockets
        if not self._options.devices:
            return ()
        log = None if self._options.verbose else self.logs / "server.log"
        server = DeviceServer.of_guest(self._options, work, log, self._on_server_end)
        self._open.callback(server.stop)
        server.start()
        self._server = server
        return server.sockets

    def _start_process(
        self, command: list[str], console_log: ConsoleLog, *inherited: int
    ) -> subprocess.Popen[bytes]:
        """Start the program with ``command`` and return it; :meth:`stop` ends it.

        Its standard error is ``qemu.log``. The process inherits the console's pipe, which is then
        closed here, and ``inherited``.
        """
        logger.debug("starting %s", shlex.join(command))
        with (self.logs / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                tied(command),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if self._options.verbose else subprocess.DEVNULL,
                stderr=log,
                pass_fds=(console_log.fd, *inherited),
                process_group=0 if self.leads_group else None,
            )
        console_log.started()
        self._open.callback(stop_group if self.leads_group else stop, self._process)
        return self._process

"""Starts and ends the processes of a guest whose kernel is a process of the host."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from emu.guests.archive.bootstrap import Progress
from emu.guests.channel.line import SerialLine
from emu.guests.errors import GuestError, LabError, ServerError
from emu.guests.guest.console_log import ConsoleLog
from emu.guests.guest.vm import Served, Vm
from emu.guests.guest.watch import StayCallbacks
from emu.guests.machine import uml
from emu.guests.options import GuestOptions
from emu.server.service.transports import VHOST_USER


class UmlVm(Vm):
    """The processes of one guest: a User-Mode Linux kernel, and the server of its functions.

    The processes are the user's own, without QEMU's isolation: code in a module of such a kernel
    may do on the host what the user may.
    """

    program = "the kernel"
    leads_group = True

    def __init__(
        self,
        options: GuestOptions,
        on_server_end: Callable[[ServerError], None],
        served: Served | None = None,
        stay: StayCallbacks | None = None,
    ) -> None:
        uml.check(options)
        if served is not None:
            raise LabError("a lab's functions are served to QEMU only, not to User-Mode Linux")
        super().__init__(replace(options, transport=VHOST_USER), on_server_end, served, stay)
        self._requested = options
        self.is_emulated = False

    def control(self, command: str, **arguments: object) -> object:
        """Refuse QMP commands: no QEMU exists."""
        raise GuestError(f"{command}: not supported with User-Mode Linux")

    def _boot(
        self,
        work: Path,
        functions: tuple[Path, ...],
        log: ConsoleLog,
        progress: Progress | None,
        on_wait: Callable[[], None] | None,
    ) -> socket.socket:
        """Start the kernel's process; return the connection to its port, before the guest is up.

        Core dumps of the process are off. Raises LabError for unsupported options or a kernel that
        lacks something.
        """
        ours, theirs = socket.socketpair()
        line = SerialLine(ours)
        self._open.callback(line.close)
        with theirs:
            inherited = uml.Descriptors(theirs.fileno(), log.fd)
            words = uml.command(self._requested, work, functions, inherited, progress, on_wait)
            self._tell_booting(progress)
            process = self._start_process(words, log, theirs.fileno())
            # The kernel aborts on SIGTERM, and a core dump would have the guest's memory.
            with contextlib.suppress(OSError):
                resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
        return line.connection

"""A guest with emulated functions: commands in it, its driver, its memory, its files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emu.guests.architecture import ARCHITECTURES, why_only_amd64
from emu.guests.channel.job import GuestJob, Sink
from emu.guests.errors import CommandFailedError, GuestError
from emu.guests.guest import dump
from emu.guests.guest.booted import BootedGuest
from emu.guests.guest.server import RECORD_NAME
from emu.guests.guest.states import BOOTING, UP
from emu.guests.share import how_run

_MODPROBE_TIMEOUT = 60.0
_MARKS = 5


@dataclass(frozen=True)
class Result:
    """The result of a command in the guest; ``status`` is the exit status as a shell reports it."""

    command: str
    status: int
    stdout: str
    stderr: str
    hint: str = ""
    """How a command can run that was not found or is not executable."""

    def check(self) -> Result:
        """Return the result itself for status 0, else raise :class:`CommandFailedError`."""
        if self.status != 0:
            why = f"{self.command}: status {self.status}"
            raise CommandFailedError(why, self.stderr, self.hint)
        return self


class Guest(BootedGuest):
    """A guest that is started, asked to run commands, and stopped.

    ::

        with Guest(GuestOptions(suite="sid")) as guest:
            print(guest.run("ibv_devices").check().stdout)

    Errors are :class:`GuestError` and its subclasses. Several guests may run at the same time, and
    several threads may use the same guest.
    """

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
        sink: Sink | None = None,
    ) -> Result:
        """Run a command as root, wait until it ends, and return its status and output.

        A nonzero status is no error (:meth:`Result.check` raises it). A string is run by ``sh -c``;
        a list of words is run unchanged. ``cwd`` is the command's directory, by default
        :attr:`directory`; status 125 if it is missing. ``sink`` receives the output while the
        command runs; the result then has none.
        Raises :class:`CommandTimeoutError` after ``timeout`` seconds, by default
        :attr:`command_timeout`; the command is killed and the guest stays usable. Raises GuestError
        when the guest is booting, has ended or hangs.
        """
        job = self.popen(command, has_input=bool(stdin), environ=environ, cwd=cwd, sink=sink)
        with self._diagnosed():
            if stdin:
                job.write(stdin, timeout)
                job.close_input()
            status = job.wait(timeout)
        stdout, stderr = (bytes(data).decode(errors="replace") for data in (job.stdout, job.stderr))
        options, begin = self.options, cwd or self.directory
        hint = how_run(command, status, stderr, options.share, begin, options.arch)
        return Result(job.name, status, stdout, stderr, hint)

    def popen(
        self,
        command: str | Sequence[str],
        *,
        has_input: bool = False,
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
        sink: Sink | None = None,
    ) -> GuestJob:
        """Start a command without waiting for it; return its job. Parameters as in :meth:`run`.

        Raises GuestError for an empty command, and for a guest that is booting, not running or
        ended.
        """
        words = ["sh", "-c", command] if isinstance(command, str) else list(command)
        if not words:
            raise GuestError("no command")
        name = command if isinstance(command, str) else shlex.join(words)
        if (begin := cwd or self.directory) is not None:
            words = ["env", f"--chdir={begin}", *words]
        with self._diagnosed():
            channel = self._running
            if self.state == BOOTING:
                raise GuestError("the guest is booting")  # data sent now would be lost
            job = channel.start(name, words, environ or {}, has_input=has_input, sink=sink)
            job.default_timeout = self.command_timeout
            return job

    def wait(
        self,
        job: GuestJob,
        timeout: float | None = None,
        at_timeout: Callable[[], None] | None = None,
    ) -> int:
        """Wait for a command from :meth:`popen`; return its exit status as a shell reports it.

        ``at_timeout`` is called after ``timeout`` seconds, while the command still runs. Raises as
        :meth:`run` does.
        """
        with self._diagnosed():
            return job.wait(timeout, at_timeout)

    def control(self, command: str, **arguments: object) -> object:
        """Run a command of QEMU's control protocol (QMP) and return its result."""
        with self._diagnosed():
            return self._machine.control(command, **arguments)

    def probe(self) -> None:
        """Load the driver and let it bind the functions, after a boot with ``options.hold_probe``.

        Start a fault plan that waits for the driver afterwards. No time limit applies, because a
        debugger may stop the guest for any time. Raises CommandFailedError when loading fails.
        """
        self.run(["sh", "/run/mlx5emu/probe.sh"]).check()
        with self._diagnosed():
            self._machine.arm_faults()

    def dump(self, path: Path) -> None:
        """Write the guest's memory into ``path``, for crash and drgn; the guest stops meanwhile.

        A guest that is up first loads qemu_fw_cfg, which reports VMCOREINFO. Raises GuestError,
        also for a guest of another architecture than amd64.
        """
        if why := why_only_amd64(ARCHITECTURES[self.options.arch], "dump"):
            raise GuestError(why)
        # The kernel then reports its VMCOREINFO to QEMU, for the file.
        if self.state == UP:
            self.run(["modprobe", "-q", "qemu_fw_cfg"], timeout=_MODPROBE_TIMEOUT)
        with self._diagnosed():
            dump.write(self._machine.control, path)

    def mark_clock(self) -> None:
        """Write our clock into the kernel's log five times; readers use the least delayed mark.

        Raises GuestError for a guest that does not run or has ended.
        """
        with self._diagnosed():
            for _ in range(_MARKS):
                self._running.mark_clock()

    def dmesg(self) -> str:
        """Return the kernel's log."""
        return self.run(["dmesg"], timeout=60).check().stdout

    @property
    def control_socket(self) -> Path:
        """The socket to which :class:`emu.server.control.Client` connects.

        Raises GuestError for a guest that does not run or has no functions.
        """
        return self._machine.control_socket

    @property
    def gdb_socket(self) -> Path | None:
        """The socket to which a debugger connects; None without ``options.gdb``."""
        return self._machine.gdb_socket

    @property
    def record(self) -> Path:
        """The record of the faults that have fired."""
        return self.options.record or self.logs / RECORD_NAME

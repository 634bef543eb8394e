"""A guest with emulated functions: boots it, runs commands in it, reads its console, stops it."""

from __future__ import annotations

import atexit
import contextlib
import logging
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emu.guests.architecture import ARCHITECTURES, why_only_amd64
from emu.guests.archive.bootstrap import Progress
from emu.guests.channel.channel import GuestChannel
from emu.guests.channel.job import GuestJob, Sink
from emu.guests.errors import (
    ChannelClosedError,
    CommandFailedError,
    CommandTimeoutError,
    GuestError,
    GuestHungError,
    GuestPanicError,
)
from emu.guests.guest import console, dump
from emu.guests.guest.server import RECORD_NAME
from emu.guests.guest.states import BOOTING, OFF, PANICKED, UP
from emu.guests.guest.uml_vm import UmlVm
from emu.guests.guest.vm import Served, Vm
from emu.guests.guest.watch import StayCallbacks
from emu.guests.kernel.binaries import is_uml
from emu.guests.options import GuestOptions
from emu.guests.share import SHARE, how_run

logger = logging.getLogger(__name__)

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


class Guest:
    """A guest that is started, asked to run commands, and stopped.

    ::

        with Guest(GuestOptions(suite="sid")) as guest:
            print(guest.run("ibv_devices").check().stdout)

    Errors are :class:`GuestError` and its subclasses. Several guests may run at the same time, and
    several threads may use the same guest.
    """

    def __init__(
        self,
        options: GuestOptions | None = None,
        *,
        progress: Progress | None = None,
        on_wait: Callable[[], None] | None = None,
        served: Served | None = None,
    ) -> None:
        self.options = options or GuestOptions()
        self._served = served
        self.kernel_release = ""
        self.command_timeout: float | None = None
        """Default time limit in seconds of commands; None for no limit."""
        self.directory = None if self.options.share is None else SHARE
        """Directory in which commands begin; None for root's home."""
        self._progress = progress
        self._on_wait = on_wait
        self._vm: Vm | None = None
        self._channel: GuestChannel | None = None
        self._server_failure: GuestError | None = None
        self._ending: GuestError | None = None
        """The error of a guest that has ended and stays."""
        self._begun = 0.0

    def __enter__(self) -> Guest:
        if self._vm is None:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Boot until the guest accepts commands; its driver has then probed the functions.

        Raises GuestError if the guest runs already or fails to boot, and LabError of a failed
        build. The guest is stopped after an error.
        """
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Start server and QEMU without waiting for the boot; call :meth:`wait_ready` afterwards.

        Raises GuestError if the guest runs already. After any other error (LabError, ServerError)
        the guest is stopped. At our process's exit the guest is stopped as well.
        """
        if self._vm is not None:
            raise GuestError("the guest is already running")
        self._begun = time.monotonic()
        self._server_failure = None
        stay = StayCallbacks(self._expect_reboot, self._record_end) if self.options.stays else None
        self._ending = None
        kind = UmlVm if is_uml(self.options.kernel) else Vm
        self._vm = kind(self.options, self.lose_server, self._served, stay)
        atexit.register(self.stop)
        try:
            connection = self._vm.start(self._progress, self._on_wait)
            with self._diagnosed():
                self._channel = GuestChannel(connection, self.options.hang_timeout)
        except BaseException:
            self.stop()
            raise

    def wait_ready(self) -> None:
        """Wait until the guest accepts commands, then start a fault plan that waits for the driver.

        With ``options.hold_probe`` that plan waits for :meth:`probe` instead. Raises GuestHungError
        after ``options.boot_timeout``, GuestPanicError, GuestStoppedError or ServerError. Any
        exception stops the guest.
        """
        try:
            with self._diagnosed():
                if self._server_failure is not None:
                    raise self._server_failure
                self._wait_ready()
                if not self.options.hold_probe:
                    self._machine.arm_faults()
        except BaseException:
            self.stop()
            raise
        took = time.monotonic() - self._begun
        logger.info("guest %s ready in %.1f s", self.kernel_release, took)

    def await_boot(self) -> None:
        """Wait until a rebooting guest accepts commands again; return at once when it already does.

        Raises the error of a guest that has ended, and GuestHungError after
        ``options.boot_timeout``.
        """
        with self._diagnosed():
            if self._ending is not None:
                raise self._ending
            if self.state == BOOTING:
                self._wait_ready()

    def stop(self) -> None:
        """Kill the guest and stop its server at once; disk changes are lost. May be called twice.

        The guest does not shut down by itself first. The logs stay.
        """
        if self._channel is not None:
            self._channel.close()
        if self._vm is not None:
            self._vm.stop()
        self._channel = self._vm = None
        atexit.unregister(self.stop)

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

    def reboot(self, *, hard: bool = False) -> None:
        """Reboot in the same QEMU and wait until the guest accepts commands; running commands fail.

        By default the guest's kernel reboots and shuts its devices down; ``hard`` resets the
        machine instead. Raises GuestError for a guest that does not run, GuestHungError after
        ``options.boot_timeout``.
        """
        with self._diagnosed():
            channel, vm = self._running, self._machine
            vm.control("set-action", reboot="reset")
            channel.expect_reboot()
            if hard:
                vm.control("system_reset")
            else:
                channel.power("reboot")
            self._wait_ready()
            vm.control("set-action", reboot="shutdown")

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

    def kill_server(self) -> None:
        """Kill the server: the functions disappear at once, and the guest runs without them."""
        self._machine.kill_server()

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

    @property
    def server_failure(self) -> GuestError | None:
        """The error of a server that ended by itself, or that it reported at its end."""
        return self._server_failure

    @property
    def is_running(self) -> bool:
        """Whether the guest accepts commands, as far as is known."""
        return self._channel is not None and self._channel.is_open

    @property
    def work_seconds(self) -> float | None:
        """CPU seconds that a kernel process has run or waited to run, if known.

        For QEMU the value is its main thread's, not the guest's.
        """
        return None if self._vm is None else self._vm.work_seconds

    @property
    def is_emulated(self) -> bool:
        """Whether the guest's processors are emulated instead of run by KVM."""
        return self._vm is None or self._vm.is_emulated

    @property
    def state(self) -> str:
        """One of ``STATES`` (states.py); without ``options.stays`` one of the first two."""
        if self._ending is not None:
            return PANICKED if isinstance(self._ending, GuestPanicError) else OFF
        is_ready = self._channel is not None and self._channel.is_ready
        return UP if is_ready else BOOTING

    @property
    def logs(self) -> Path:
        """Directory of ``console.log``, ``qemu.log`` and ``server.log``."""
        return self._machine.logs

    @property
    def log_files(self) -> dict[str, Path]:
        """Files of its logs: ``console``, ``qemu``, and ``server`` if it has functions."""
        return self._machine.log_files

    @property
    def console(self) -> str:
        """The console's output; of a very long one, the start and the end."""
        return self._machine.console

    def dmesg(self) -> str:
        """Return the kernel's log."""
        return self.run(["dmesg"], timeout=60).check().stdout

    @property
    def _machine(self) -> Vm:
        if self._vm is None:
            raise GuestError("the guest is not running")
        return self._vm

    @property
    def _running(self) -> GuestChannel:
        if self._channel is None:
            raise GuestError("the guest is not running")
        return self._channel

    def lose_server(self, error: GuestError) -> None:
        """Record ``error`` as :attr:`server_failure`; raise it in present and later commands."""
        self._server_failure = error
        if self._channel is not None:
            self._channel.fail(error)

    def _expect_reboot(self) -> None:
        """Expect the guest to boot again."""
        if self._channel is not None:
            self._channel.expect_reboot()

    def _record_end(self, error: GuestError) -> None:
        """Record that the guest has panicked or powered off; raise ``error`` in its commands."""
        self._ending = error
        if self._channel is not None:
            self._channel.fail(error)

    def _wait_ready(self) -> None:
        """Wait for the kernel's HELLO and record its release; the boot then counts for saved boots.

        With ``options.trace`` the clock is marked. Raises GuestHungError after
        ``options.boot_timeout``.
        """
        release = self._running.wait_ready(self.options.boot_timeout)
        if release is None:
            raise GuestHungError(
                f"the boot timed out: the guest is not up after {self.options.boot_timeout:g} s;"
                " if its console still progresses, raise --boot-timeout (boot_timeout)"
            )
        self.kernel_release = release
        self._machine.note_up()
        if self.options.trace is not None:
            self._running.mark_clock()

    @contextlib.contextmanager
    def _diagnosed(self) -> Iterator[None]:
        """Complete the errors that the body raises about the guest.

        A GuestError without a console gets the last console lines. ChannelClosedError becomes the
        reason of the end: GuestPanicError or GuestStoppedError. CommandTimeoutError passes
        unchanged, because the guest keeps running. The error of an end before the body is raised
        without a console.
        """
        ended_before = self._ending
        try:
            yield
        except CommandTimeoutError:
            raise
        except ChannelClosedError:
            raise self._machine.why_ended() from None
        except GuestError as error:
            if error is ended_before:
                raise type(error)(str(error)) from None
            if self._vm is not None:
                error.console = error.console or console.tail(self._vm.console)
            raise

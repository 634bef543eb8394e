"""A guest's boot, its end, and the errors that say why it has ended."""

from __future__ import annotations

import atexit
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from emu.guests.archive.bootstrap import Progress
from emu.guests.channel.channel import GuestChannel
from emu.guests.errors import (
    ChannelClosedError,
    CommandTimeoutError,
    GuestError,
    GuestHungError,
    GuestPanicError,
)
from emu.guests.guest import console
from emu.guests.guest.states import BOOTING, OFF, PANICKED, UP
from emu.guests.guest.uml_vm import UmlVm
from emu.guests.guest.vm import Served, Vm
from emu.guests.guest.watch import StayCallbacks
from emu.guests.kernel.binaries import is_uml
from emu.guests.options import GuestOptions
from emu.guests.share import SHARE

logger = logging.getLogger(__name__)

_MAX_SILENCE = 30.0
"""Seconds without a byte on the console, on a host where KVM has booted no kernel."""


class BootedGuest:
    """A guest that is started and stopped; several may run at the same time."""

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

    def __enter__(self) -> Self:
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
        after ``options.boot_timeout`` or earlier (see ``_await_release``), GuestPanicError,
        GuestStoppedError or ServerError. Any exception stops the guest.
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

    def kill_server(self) -> None:
        """Kill the server: the functions disappear at once, and the guest runs without them."""
        self._machine.kill_server()

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
        ``options.boot_timeout`` or earlier, see ``_await_release``.
        """
        release = self._await_release(self.options.boot_timeout)
        if release is None:
            raise GuestHungError(
                f"the boot timed out: the guest is not up after {self.options.boot_timeout:g} s;"
                " if its console still progresses, raise --boot-timeout (boot_timeout)"
            )
        self.kernel_release = release
        self._machine.note_up()
        if self.options.trace is not None:
            self._running.mark_clock()

    def _await_release(self, timeout: float) -> str | None:
        """Wait up to ``timeout`` seconds for the kernel's HELLO; return its release, None without.

        Raises GuestHungError after 30 s if KVM has booted no kernel on this host before, and the
        console is still empty.
        """
        if not self._machine.is_doubted or timeout <= _MAX_SILENCE:
            return self._running.wait_ready(timeout)
        release = self._running.wait_ready(_MAX_SILENCE)
        if release is None and not self._machine.console:
            again = "; mlx5emu doctor tests KVM again" if self._machine.can_retest else ""
            raise GuestHungError(
                f"KVM does not boot the guest: its console is empty after {_MAX_SILENCE:g} s. Use"
                f" --accel tcg, or auto{again}"
            )
        return release or self._running.wait_ready(timeout - _MAX_SILENCE)

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

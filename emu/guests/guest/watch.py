"""Decides what happens to a guest that resets its machine (a panic does) or powers off.

QEMU stops there (``-action shutdown=pause``) until we send a command. A panicked guest's memory may
be kept in a file, QEMU may end, or the guest may stay stopped for inspection. A guest that stays
boots again when it has reset its machine by itself.

QEMU also stops a machine that KVM cannot run, in the state "internal-error" (its RunState).
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from emu.guests.errors import GuestError, GuestPanicError, GuestStoppedError
from emu.guests.guest import console, dump
from emu.guests.guest.process import ChildListener
from emu.guests.machine.qmp import Qmp

logger = logging.getLogger(__name__)

CANNOT_RUN = "KVM cannot run the guest (QEMU: KVM internal error); use --accel tcg"

CONNECT_TIMEOUT = 60.0
WRITE_TIMEOUT = 600.0


@dataclass(frozen=True)
class StayCallbacks:
    """Callbacks for a guest that stays; the watching thread calls both."""

    on_reboot: Callable[[], None]
    """Called when the guest has reset its machine and is about to boot again."""
    on_end: Callable[[GuestError], None]
    """Called when the guest has panicked or powered off, and stays stopped."""


class Watch:
    """Waits for such an event on its own QMP connection.

    ``path`` is the file for the memory of a guest that panics, if any. ``read_console`` returns the
    console so far. Without ``stay`` QEMU ends.
    """

    def __init__(
        self,
        path: Path | None,
        work: Path,
        read_console: Callable[[], str],
        stay: StayCallbacks | None,
    ) -> None:
        self._path = path
        self._read_console = read_console
        self._stay = stay
        self._listener = ChildListener(work / "events")
        self._booted_at = 0
        """Length of the console when the guest last started to boot."""
        self.outcome = ""
        """Outcome of saving the memory of a guest that has panicked."""
        self.cannot_run = False
        """Whether QEMU stopped the machine because of an internal error of KVM."""

    @property
    def control(self) -> Path:
        """The socket that QEMU connects to."""
        return self._listener.path

    def start(self, process: subprocess.Popen[bytes]) -> None:
        """Start a thread that handles each stop of the machine until ``process`` ends."""
        threading.Thread(target=self._watch, args=(process,), name="watch", daemon=True).start()

    def close(self) -> None:
        """Close the connection; call it when QEMU has ended."""
        self._listener.close()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Accept QEMU's connection; handle each stop of the machine until QEMU ends.

        Log errors only.
        """
        try:
            connection = self._listener.accept(process, CONNECT_TIMEOUT)
            with contextlib.closing(Qmp(connection, WRITE_TIMEOUT)) as qmp:
                while True:
                    event, about = qmp.wait_for("SHUTDOWN", "STOP")
                    if event == "SHUTDOWN":
                        self._handle(qmp, about)
                    elif qmp.execute("query-status").get("status") == "internal-error":
                        self._give_up(qmp)
        except (GuestError, OSError) as error:
            logger.debug("QEMU has ended: %s", error)

    def _handle(self, qmp: Qmp, about: dict[str, object]) -> None:
        """Handle a machine that has stopped: write a panic's memory; end QEMU or keep the guest.

        Without ``stay`` QEMU quits. With it, a panic or power-off calls ``on_end`` and the machine
        stays stopped; a reset calls ``on_reboot`` and boots again.
        """
        said = self._read_console()
        reason = console.panic_reason(said[self._booted_at :])
        if reason is not None and self._path is not None:
            self._keep(qmp, self._path)
        if self._stay is None:
            qmp.execute("quit")
        elif reason is not None:
            suffix = f"; {self.outcome}" if self.outcome else ""
            self._stay.on_end(GuestPanicError(f"the guest panicked: {reason}{suffix}"))
        elif about.get("reason") == "guest-reset":
            self._booted_at = len(said)
            self._stay.on_reboot()
            _boot_again(qmp)
        elif about.get("guest") is True:
            why = console.why_off(said[self._booted_at :], "the guest powered off")
            self._stay.on_end(GuestStoppedError(why))

    def _give_up(self, qmp: Qmp) -> None:
        """End QEMU, whose KVM cannot run the guest, or keep the machine stopped with ``stay``."""
        self.cannot_run = True
        if self._stay is None:
            qmp.execute("quit")
        else:
            self._stay.on_end(GuestStoppedError(CANNOT_RUN))

    def _keep(self, qmp: Qmp, path: Path) -> None:
        """Write the memory to ``path``; set :attr:`outcome` to the result or the failure."""
        try:
            dump.write(qmp.execute, path)
            self.outcome = f"its memory was saved in {path}"
        except GuestError as error:
            self.outcome = f"its memory is lost: {error}"


def _boot_again(qmp: Qmp) -> None:
    """Reset the stopped machine and let it run.

    QEMU would otherwise stop at the same reset again.
    """
    qmp.execute("set-action", reboot="reset")
    qmp.execute("system_reset")
    qmp.wait_for("RESET")  # the machine cannot continue before
    qmp.execute("set-action", reboot="shutdown")
    qmp.execute("cont")

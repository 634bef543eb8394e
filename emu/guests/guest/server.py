"""The process that serves a guest's emulated functions: ``mlx5emu serve``, our child process."""

from __future__ import annotations

import json
import logging
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from emu.guests.errors import LabError, RefusedError, ServerError
from emu.guests.guest import console
from emu.guests.guest.process import how_ended, stop, tied
from emu.guests.options import GuestOptions
from emu.guests.options.records import recorded
from emu.host.process_identity import module_command
from emu.host.user_error import UserError
from emu.server.control.client import SOCKET_NAME, Client, ControlError

logger = logging.getLogger(__name__)

READY_TIMEOUT = 60.0
_REFUSED = 2
"""Exit status of a server that refuses its options (click.UsageError)."""
RECORD_NAME = "faults.jsonl"
"""File name, in the guest's logs, of the record of a run with faults."""


class DeviceServer:
    """One process for all functions of a guest, so that they can send packets to each other.

    ``guests`` names each function's guest, if the functions are of several guests. ``on_end`` is
    called with a :class:`ServerError` if it ends by itself after it was ready.
    """

    def __init__(
        self,
        devices: Sequence[str],
        *,
        directory: Path,
        log: Path | None,
        trace: Path | None = None,
        faults: Path | None = None,
        faults_when: str | None = None,
        record: Path | None = None,
        run: Mapping[str, object] | None = None,
        options: Sequence[str] = (),
        guests: Sequence[str] = (),
        on_end: Callable[[ServerError], None],
    ) -> None:
        self.sockets = tuple(directory / f"function{number}" for number in range(len(devices)))
        self._log = log
        self._on_end = on_end
        self._settled = threading.Event()
        self._is_ready = self._stopping = False
        self._command = [*module_command("emu"), "serve"]
        for socket, device in zip(self.sockets, devices, strict=True):
            self._command += ["--socket", str(socket), "--device", device]
        if trace is not None:
            self._command += ["--trace", str(trace)]
        self._late_plan = _late_text(faults, faults_when) if faults is not None else None
        early = faults if self._late_plan is None else None
        if early is not None and faults_when is not None:
            self._command += ["--faults-when", faults_when]
        for name, path in (("--faults", early), ("--record", record)):
            if path is not None:
                self._command += [name, str(path)]
        if record is not None:
            self._command += ["--run", json.dumps(run or {})]
        self.control = directory / SOCKET_NAME
        self._command += ["--control", str(self.control)]
        for guest in guests:
            self._command += ["--guest", guest]
        self._command += options
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of_guest(
        cls,
        options: GuestOptions,
        directory: Path,
        log: Path | None,
        on_end: Callable[[ServerError], None],
    ) -> DeviceServer:
        """Return the server for a guest's options, not started.

        Its sockets will be in ``directory``. The record is ``options.record``, or for a guest with
        faults a file beside ``log``. Raises LabError for a fault plan with mistakes.
        """
        return cls(
            options.devices,
            directory=directory,
            log=log,
            trace=options.trace,
            faults=options.faults,
            faults_when=options.faults_when,
            record=options.record or _record_in_logs(options, log),
            run=recorded(options),
            options=options.server_words,
            on_end=on_end,
        )

    def start(self) -> None:
        """Start the process and return once it listens on its sockets.

        Raises RefusedError for refused options, and ServerError when it ends or is not ready within
        60 s. A thread then watches the process and calls ``on_end`` if it ends by itself.
        """
        logger.info("starting %s", " ".join(self._command))
        stderr = self._log.open("wb") if self._log is not None else None
        try:
            self._process = subprocess.Popen(
                tied(self._command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        finally:
            if stderr is not None:
                stderr.close()
        threading.Thread(
            target=self._watch, args=(self._process,), name="device server", daemon=True
        ).start()
        if not self._settled.wait(READY_TIMEOUT):
            self.stop()
            raise ServerError(f"the device server was not ready within {READY_TIMEOUT:g} s")
        if not self._is_ready:
            status = self._process.wait()
            said = self._last_line()
            if status == _REFUSED and said:
                raise RefusedError(said)
            raise ServerError(self._why_ended(status))

    @property
    def has_late_plan(self) -> bool:
        """Whether the plan starts once the driver is up, and waits for :meth:`arm`."""
        return self._late_plan is not None

    def arm(self) -> None:
        """Load the plan that waits for the driver, if any; further calls do nothing.

        Raises :class:`ServerError` when the server refuses the plan or does not answer.
        """
        text, self._late_plan = self._late_plan, None
        if text is None:
            return
        try:
            with Client(self.control) as control:
                control.load_plan(text)
        except ControlError as error:
            raise ServerError(f"the fault plan could not be loaded: {error}") from None

    def stop(self) -> None:
        """End the process; call ``on_end`` if a ready server ends with an error status.

        May be repeated.
        """
        was_stopping, self._stopping = self._stopping, True
        stop(self._process)
        status = self._process.returncode if self._process is not None else 0
        if self._is_ready and not was_stopping and status > 0:
            self._on_end(ServerError(self._why_ended(status)))

    def kill(self) -> None:
        """Kill the process at once, without cleanup; ``on_end`` is not called."""
        self._stopping = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Wait in the thread for the line ``ready``, then for the end of the process.

        A ready server that ends without :meth:`stop` or :meth:`kill` is reported to ``on_end``.
        """
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                if line.strip() == b"ready":
                    self._is_ready = True
                    self._settled.set()
        status = process.wait()
        if self._is_ready and not self._stopping:
            self._on_end(ServerError(self._why_ended(status)))
        self._settled.set()

    def _why_ended(self, status: int) -> str:
        said = self._last_line() if status >= 0 else ""  # a signal leaves no line
        return f"the device server {how_ended(status)}" + f": {said}" * bool(said)

    def _last_line(self) -> str:
        """Return the last line of the process's log, if it has one."""
        lines = console.read(self._log).strip().splitlines() if self._log is not None else []
        return lines[-1].removeprefix("Error: ").removeprefix("mlx5emu: ") if lines else ""


def _late_text(path: Path, when: str | None) -> str | None:
    """Return the text of a plan that begins once the driver is up; None for an earlier one.

    ``when`` overrides the plan's own beginning. Raises :class:`LabError` for a plan with mistakes.
    """
    # Reading plans takes a tenth of a second to import, which few guests need.
    from emu.device.faults.plan import LOADED
    from emu.server.service.plan_files import read_plan_text

    try:
        plan, text = read_plan_text(path)
    except UserError as error:
        raise LabError(str(error)) from None
    return text if (when or plan.begins) == LOADED else None


def _record_in_logs(options: GuestOptions, log: Path | None) -> Path | None:
    """Return the default file of a plan's record."""
    return log.parent / RECORD_NAME if options.faults is not None and log is not None else None

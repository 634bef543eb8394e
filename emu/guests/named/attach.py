"""Commands in a guest of another process: the clients of :mod:`emu.guests.named.exec_server`."""

from __future__ import annotations

import codecs
import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from emu.guests.channel.channel import GuestChannel
from emu.guests.channel.job import GuestJob
from emu.guests.errors import GuestError, LabError
from emu.guests.guest.states import OFF, PANICKED
from emu.guests.named import running
from emu.host.printable import printable

ENDED = (PANICKED, OFF)
SILENT = "silent"
_ANSWER_TIMEOUT = 30.0


@contextlib.contextmanager
def at_command(name: str) -> Iterator[GuestChannel]:
    """Hold a channel for commands while the body runs; first wait for a guest that reboots.

    The channel's commands are killed at the end. Raises :class:`LabError` for an unknown name, and
    the error of a guest that has panicked or powered off, with its name.
    """
    with attached(name) as channel:
        try:
            channel.ask("boot").wait()
        except GuestError as error:
            error.args = (f"{name}: {error}",)
            raise
        yield channel


@contextlib.contextmanager
def attached(name: str) -> Iterator[GuestChannel]:
    """Hold a channel to the guest ``NAME`` or ``LAB/GUEST`` while the body runs.

    The guest may be in any state. Raises :class:`LabError` for an unknown name, GuestError when its
    server does not answer in 30 s.
    """
    path = running.find_guest(name)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise GuestError(f"{name} accepts no commands: {error.strerror}") from error
    channel = GuestChannel(connection, _ANSWER_TIMEOUT)
    try:
        if channel.wait_ready(_ANSWER_TIMEOUT) is None:
            raise GuestError(f"{name} does not answer")
        yield channel
    finally:
        channel.close()


def state_of(name: str, timeout: float = 5.0) -> str:
    """Return the state that the guest reports, or ``silent`` without an answer.

    States are up, booting, panicked, off, and "down: REASON" of a guest without its functions.
    Unknown names are ``silent`` too; no error is raised.
    """
    try:
        with attached(name) as channel:
            return _answer(channel, "state", timeout)
    except LabError:
        return SILENT


def control_of(name: str) -> tuple[Path, str | None]:
    """Return the control socket of the server of a guest's functions, and the guest's name there.

    The name is None when all functions of the server are meant: of a whole lab, or of a server with
    one guest. Raises :class:`LabError`, also for a guest without functions.
    """
    entry, guest = running.resolve(name)
    of_lab = guest if len(entry.guests) > 1 else ""
    with attached(f"{entry.name}/{guest or entry.guests[0]}") as channel:
        return Path(_answer(channel, "control", _ANSWER_TIMEOUT)), of_lab or None


def log_of(name: str) -> tuple[str, str]:
    """Return the log of the guest's kernel, and the guest's state. Raises :class:`LabError`.

    For a guest that has panicked or powered off, return its console: warnings and worse.
    """
    with attached(name) as channel:
        state = _answer(channel, "state", _ANSWER_TIMEOUT)
        if state in ENDED:
            return _answer(channel, "console", _ANSWER_TIMEOUT), state
    return output_of(name, ["dmesg"]).decode(errors="replace"), state


def log_files(name: str) -> dict[str, Path]:
    """Return the files of a guest's logs on the host: ``console``, ``qemu``, ``server``.

    A guest without functions has no server. The files need not exist. Raises :class:`LabError`.
    """
    with attached(name) as channel:
        files: dict[str, str] = json.loads(_answer(channel, "logs", _ANSWER_TIMEOUT))
    return {of: Path(path) for of, path in files.items()}


def follow_log(name: str, show: Callable[[str], None]) -> None:
    """Show the log of the guest's kernel and all new lines, until the guest ends or reboots.

    Raises :class:`LabError` then; ``show`` is called from another thread, with printable text.
    """
    text = codecs.getincrementaldecoder("utf-8")("replace")

    def sink(_kind: int, data: bytes) -> None:
        show(printable(text.decode(data)))

    with at_command(name) as channel:
        channel.start("dmesg", ["dmesg", "--follow"], {}, sink=sink).wait()


def _answer(channel: GuestChannel, what: str, timeout: float) -> str:
    """Return the exec server's answer to a request.

    Raises the error in it, and CommandTimeoutError after ``timeout`` seconds.
    """
    job = channel.ask(what)
    job.wait(timeout)
    return bytes(job.stdout).decode(errors="replace")


def output_of(name: str, words: list[str], timeout: float = 60.0) -> bytes:
    """Run a command in a guest, wait for it, and return its standard output.

    Raises :class:`LabError` for an unknown guest, a nonzero status, and after ``timeout`` seconds.
    """
    with at_command(name) as channel:
        job: GuestJob = channel.start(" ".join(words), words, {})
        status = job.wait(timeout)
        if status != 0:
            said = printable(bytes(job.stderr).decode(errors="replace")).strip()
            raise GuestError(f"{job.name} ended with status {status}: {said}")
        return bytes(job.stdout)

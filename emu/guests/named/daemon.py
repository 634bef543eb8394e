"""The daemon: a background process that runs guests for later commands.

The command that starts the guests forks the daemon and waits until they are up. If that command
ends early (Ctrl-C, a kill), the guests end too. Final errors of the guests' server, such as a trace
truncated by a full disk, go to the command that ends the guests.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

from emu.guests import cache
from emu.guests.errors import GuestError, LabError, as_reported, reported_failure
from emu.guests.named import running
from emu.guests.named.exec_server import ExecServer, GuestHandle

UP = b"{}"
_KEPT = b"+"
"""Prefix of the report of a failure after which the guests stay up."""
_LOG = "daemon.log"
_FINAL_ERRORS = "final errors"
_MAX_REPORT_BYTES = 1 << 20
_STOP_TIMEOUT = 30.0
_HELD_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})
"""Blocked from fork() until each process has the handlers that it needs."""

Start = Callable[[contextlib.ExitStack], Mapping[str, GuestHandle]]
"""Starts guests, pushes their cleanup on the stack, and returns them by name."""


@contextlib.contextmanager
def open_exec_servers(
    claim: running.NameClaim, info: Mapping[str, object], guests: Mapping[str, GuestHandle]
) -> Iterator[None]:
    """Serve the guests' commands to other processes while the body runs, under the claim's name.

    info.json then lists the guests, which makes them known to :mod:`emu.guests.named.running`.
    """
    with contextlib.ExitStack() as stack:
        entry = running.RunningEntry(claim.path.name, claim.path, {})
        for name, guest in guests.items():
            guest.directory = None  # exec and cp choose their own, counted from root's home
            stack.callback(ExecServer(guest, entry.socket(name)).close)
        cache.save_json(claim.path / running.INFO, {**_self(info), "guests": list(guests)})
        yield


def launch(
    name: str,
    info: Mapping[str, object],
    start: Start,
    meanwhile: contextlib.AbstractContextManager[object] | None = None,
    complaints: Sequence[GuestError] = (),
) -> None:
    """Start guests in a daemon (a fork of this process), and return when they accept commands.

    ``meanwhile`` is entered after the fork, because a fork does not copy its threads. ``start``
    appends to ``complaints``: the first one is raised, and the guests stay up. Raises
    :class:`LabError` when the name is in use, or the error of ``start``; no guest runs then. An
    interrupt ends the daemon.
    """
    claim = running.NameClaim(name)
    reader, writer = os.pipe()
    # An interrupt while Python's hooks after fork() run would be lost: they drop exceptions.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_SIGNALS)
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _run_daemon(claim, info, start, writer, complaints)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(writer)
        claim.hand_over()
        with meanwhile or contextlib.nullcontext(), open(reader, "rb") as report:
            answer = report.read(_MAX_REPORT_BYTES)
    except BaseException:
        _end(pid)
        raise
    if answer.startswith(_KEPT):
        raise reported_failure(answer.removeprefix(_KEPT))
    if answer != UP:
        os.waitpid(pid, 0)
        raise reported_failure(answer)


def end(entry: running.RunningEntry) -> GuestError | None:
    """End the daemon of that entry and thereby its guests: SIGTERM, after 30 s SIGKILL.

    Return the error that the server of its functions has reported, None without one. Return None at
    once if no process ID is known yet. Raises :class:`LabError` when it does not end.
    """
    if entry.pid <= 0:
        return None
    with _open_final_errors(entry.path / _FINAL_ERRORS) as pipe:
        if not _end(entry.pid, lambda: not running.is_held(entry.name)):
            raise LabError(f"process {entry.pid}, the daemon of {entry.name}, does not end")
        answer = pipe.read(_MAX_REPORT_BYTES) if pipe is not None else None
    return reported_failure(answer) if answer else None


def _end(pid: int, has_ended: Callable[[], bool] | None = None) -> bool:
    """Send SIGTERM, after 30 s SIGKILL; return whether the process has ended 30 s later.

    If ``has_ended`` returns True first, no signal is sent: the number may be reused.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if has_ended is not None and has_ended():  # the number may be reused by now
            return True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], _STOP_TIMEOUT)[0]:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
                return True
    finally:
        os.close(handle)
    return False


@contextlib.contextmanager
def _open_final_errors(path: Path) -> Iterator[IO[bytes] | None]:
    """Open the named pipe for final errors without waiting for a writer; yield None when absent."""
    try:
        number = _without_waiting(str(path), os.O_RDONLY)
    except OSError:
        yield None
        return
    with open(number, "rb") as file:
        yield file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _send_final_error(path: Path, guests: Iterable[GuestHandle]) -> None:
    """Write the first error of the server into the pipe, if a reader waits.

    A pipe is used because a file could meet the same full disk.
    """
    failures = [guest.server_failure for guest in guests if guest.server_failure is not None]
    if failures:
        with contextlib.suppress(OSError), open(path, "wb", opener=_without_waiting) as pipe:
            pipe.write(as_reported(failures[0]))


def _self(info: Mapping[str, object]) -> dict[str, object]:
    return {"pid": os.getpid(), "since": time.time(), **info}


def _run_daemon(
    claim: running.NameClaim,
    info: Mapping[str, object],
    start: Start,
    report: int,
    complaints: Sequence[GuestError],
) -> NoReturn:
    """Run the daemon in the forked process until SIGTERM; never return.

    ``report`` is the descriptor to which the outcome of its start is written: ``UP`` or an error.
    If the starting command has ended, the guests end.
    """
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        # pause() would miss a signal right before it, or one to another thread.
        signals, arrived = os.pipe()
        os.set_blocking(arrived, False)
        signal.set_wakeup_fd(arrived, warn_on_full_buffer=False)
        with claim, contextlib.ExitStack() as last, contextlib.ExitStack() as stack:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_SIGNALS)
            _detach(claim.path / _LOG)
            os.mkfifo(claim.path / _FINAL_ERRORS, 0o600)
            cache.save_json(claim.path / running.INFO, _self(info))
            guests = start(stack)
            last.callback(_send_final_error, claim.path / _FINAL_ERRORS, guests.values())
            stack.enter_context(open_exec_servers(claim, info, guests))
            outcome = _KEPT + as_reported(complaints[0]) if complaints else UP
            os.write(report, outcome)  # fails when the starting command has ended
            os.close(report)
            while True:
                os.read(signals, 1)
    except SystemExit:
        status = 0
    except Exception as error:
        with contextlib.suppress(OSError):
            os.write(report, as_reported(error))
    finally:
        os._exit(status)


def _detach(log: Path) -> None:
    """Redirect standard input to /dev/null, and standard output and error to ``log``."""
    sys.stdout.flush()
    sys.stderr.flush()
    with log.open("wb") as file, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)

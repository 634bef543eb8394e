"""Starts child processes that do not outlive us, and listens on sockets they connect to."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from emu.guests.errors import GuestError

STOP_TIMEOUT = 5.0


def tied(command: Sequence[str]) -> list[str]:
    """Return ``command`` wrapped by setpriv(1), so that the kernel sends it SIGTERM when we die.

    Return ``command`` unchanged without setpriv, and outside the main thread. The kernel ties the
    process to the thread that starts it (prctl(2), PR_SET_PDEATHSIG), and another thread could end
    too early.
    """
    program = shutil.which("setpriv")
    if program is None or threading.current_thread() is not threading.main_thread():
        return list(command)
    return [program, "--pdeathsig", "TERM", "--", *command]


def how_ended(status: int | None) -> str:
    """Return how a process with this ``returncode`` has ended, as the end of a sentence."""
    if status is None:
        return "stopped answering, and still runs"
    if status >= 0:
        return f"ended with status {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-status, f'signal {-status}')}"


def stop(process: subprocess.Popen[bytes] | None) -> None:
    """End a process and wait for it: SIGTERM, after 5 s SIGKILL.

    Do nothing for None or an ended one.
    """
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """End a process like :func:`stop`, then send SIGKILL to the rest of the group that it leads."""
    stop(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def work_seconds(pid: int) -> float | None:
    """Return the seconds that a process' first thread has run, or waited for a busy processor.

    Return None without such a process, or without CONFIG_SCHED_INFO.
    """
    try:
        ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return (int(ran) + int(waited)) / 1e9


class ChildListener:
    """A UNIX socket on which one child process connects to us."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen(1)

    def accept(self, process: subprocess.Popen[bytes], timeout: float) -> socket.socket:
        """Wait up to ``timeout`` seconds for a connection, and return it.

        Raises :class:`GuestError` after ``timeout``, ConnectionResetError when ``process`` has
        ended. The identity of the connecting process is not checked.
        """
        pidfd = os.pidfd_open(process.pid)
        try:
            ready, _, _ = select.select([self._socket.fileno(), pidfd], [], [], timeout)
        finally:
            os.close(pidfd)
        if not ready:
            raise GuestError(f"QEMU did not connect within {timeout:g} s")
        if self._socket.fileno() not in ready:
            raise ConnectionResetError("the process has ended")
        return self._socket.accept()[0]

    def __enter__(self) -> ChildListener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._socket.close()
        self.path.unlink(missing_ok=True)

"""Commands in a guest that another process keeps: the other side of :mod:`emu.lab.named.door`."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from emu.host.printable import printable
from emu.lab.channel.channel import Channel
from emu.lab.channel.job import Job
from emu.lab.errors import GuestError
from emu.lab.named import running

_ANSWER_TIMEOUT = 30.0


@contextlib.contextmanager
def attached(name: str) -> Iterator[Channel]:
    """A channel to the guest ``NAME`` or ``LAB/GUEST``. Raises :class:`LabError`."""
    path = running.find_guest(name)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise GuestError(f"{name} takes no commands: {error.strerror}") from error
    channel = Channel(connection, _ANSWER_TIMEOUT)
    try:
        if channel.wait_ready(_ANSWER_TIMEOUT) is None:
            raise GuestError(f"{name} does not answer")
        yield channel
    finally:
        channel.close()


def output_of(name: str, words: list[str], timeout: float = 60.0) -> bytes:
    """A command's standard output. Raises :class:`LabError`, also for a status that is not 0."""
    with attached(name) as channel:
        job: Job = channel.start(" ".join(words), words, {})
        status = job.wait(timeout)
        if status != 0:
            said = printable(bytes(job.stderr).decode(errors="replace")).strip()
            raise GuestError(f"{job.name} ended with status {status}: {said}")
        return bytes(job.stdout)

"""A command in a guest and our own standard input, output and error."""

from __future__ import annotations

import contextlib
import os
import sys

from emu.guests.channel import frames
from emu.guests.channel.job import Job
from emu.guests.errors import GuestError


def pass_on(kind: int, data: bytes) -> None:
    """Write what came as ``kind`` (:mod:`emu.guests.channel.frames`) at once: the sink of a job.

    As the command wrote it, escape sequences included, as ssh does: the user has asked for this
    command's output, which may be an archive as well as a progress bar, and can send it through a
    pager. What a guest says that our own reports repeat goes through ``emu.host.printable``.
    """
    stream = sys.stdout if kind == frames.STDOUT else sys.stderr
    stream.buffer.write(data)
    stream.buffer.flush()


def feed(job: Job) -> None:
    """Give a command our standard input, to its end; for a thread of its own.

    Ends quietly when the command, its guest or the connection has gone, of which whoever waits for
    the command is told. Input that is closed or cannot be read has ended.
    """
    with contextlib.suppress(GuestError):
        while data := _read():
            job.write(data)
        job.close_input()


def _read() -> bytes:
    """What is there of standard input; nothing at its end."""
    if sys.stdin is None:  # closed by whoever started us
        return b""
    try:
        return os.read(sys.stdin.fileno(), frames.CHUNK)
    except (OSError, ValueError):  # a directory, a terminal that is gone; closed
        return b""

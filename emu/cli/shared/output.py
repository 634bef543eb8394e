"""Connects a command in a guest to standard input, output and error of this process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import termios

from emu.cli.shared.notice import notice
from emu.guests.channel import frames
from emu.guests.channel.job import GuestJob
from emu.guests.errors import GuestError


def forward(kind: int, data: bytes) -> None:
    """Write a job's output of ``kind`` (:mod:`emu.guests.channel.frames`) to stdout or stderr.

    The bytes are unchanged, escape sequences included, the same as with ssh: the output may be an
    archive. Guest texts that reports of mlx5emu quote go through ``emu.host.printable``.
    """
    stream = sys.stdout if kind == frames.STDOUT else sys.stderr
    stream.buffer.write(data)
    stream.buffer.flush()


def feed(job: GuestJob) -> None:
    """Copy standard input to a job until its end; run this in a thread of its own.

    Returns without an error if the command, its guest or the connection has ended, because the
    thread that waits for the job reports that. Closed or unreadable input counts as ended.
    """
    with contextlib.suppress(GuestError):
        while data := _read():
            job.write(data)
        job.close_input()


def tell_unread() -> None:
    """Print that the command did not get this process's input, if that is a pipe or file with data.

    Print nothing for a terminal, an empty pipe, and closed or unreadable input.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError):
        fd = sys.stdin.fileno()
        if not os.isatty(fd) and any(fcntl.ioctl(fd, termios.FIONREAD, bytes(4))):
            notice("COMMAND got no standard input: --stdin passes it on")


def _read() -> bytes:
    """Return the next bytes of standard input; empty at its end."""
    if sys.stdin is None:  # closed by the parent process
        return b""
    try:
        return os.read(sys.stdin.fileno(), frames.CHUNK)
    except (OSError, ValueError):  # a directory or a closed terminal; a closed file
        return b""

"""A command in a guest and our own standard input, output and error."""

from __future__ import annotations

import os
import sys

from emu.lab.channel import frames
from emu.lab.channel.job import Job


def pass_on(kind: int, data: bytes) -> None:
    """Write what came as ``kind`` (:mod:`emu.lab.channel.frames`) at once: the sink of a job.

    As the command wrote it, escape sequences included, as ssh does: the user has asked for this
    command's output, which may be an archive as well as a progress bar, and can send it through a
    pager. What a guest says that our own reports repeat goes through ``emu.host.printable``.
    """
    stream = sys.stdout if kind == frames.STDOUT else sys.stderr
    stream.buffer.write(data)
    stream.buffer.flush()


def feed(job: Job) -> None:
    """Give a command our standard input, to its end."""
    while data := os.read(sys.stdin.fileno(), frames.CHUNK):
        job.write(data)
    job.close_input()

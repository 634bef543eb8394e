"""What a command in a guest says, on our own standard output and error."""

from __future__ import annotations

import sys

from emu.guest import frames


def pass_on(kind: int, data: bytes) -> None:
    """Write what came as ``kind`` (:mod:`emu.guest.frames`) at once: the sink of a job."""
    stream = sys.stdout if kind == frames.STDOUT else sys.stderr
    stream.buffer.write(data)
    stream.buffer.flush()

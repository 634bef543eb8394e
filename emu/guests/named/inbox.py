"""What comes from a door's client for a command in the guest."""

from __future__ import annotations

import queue
from collections.abc import Callable

from emu.guests.channel import frames
from emu.guests.channel.job import Job


class Inbox:
    """What a client has given a command to read, until the command reads it."""

    def __init__(self) -> None:
        self._parts: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        # Two counters with one writer each: the client's thread, and the command's.
        self._given = self._passed = 0

    def give(self, data: bytes) -> None:
        """Take more; nothing is its end. Raises ChannelFrameError if there is no room for it."""
        self._given += len(data)
        if self._given - self._passed > frames.WINDOW:
            raise frames.ChannelFrameError("more input than there is room for")
        self._parts.put(data)

    def end(self) -> None:
        """There is no more."""
        self._parts.put(b"")

    def pass_on(self, job: Job, credit: Callable[[int], None]) -> None:
        """Hand it over, at the pace at which the command reads it, to its end."""
        while data := self._parts.get():
            job.write(data)
            self._passed += len(data)
            credit(len(data))
        job.close_input()

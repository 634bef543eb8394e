"""Input of a command in the guest, queued between an exec server's client and the command."""

from __future__ import annotations

import queue
from collections.abc import Callable

from emu.guests.channel import frames
from emu.guests.channel.job import GuestJob


class Inbox:
    """Queued input of one command."""

    def __init__(self) -> None:
        self._parts: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        # Two counters with one writer each: the client's thread and the command's thread.
        self._given = self._passed = 0

    def give(self, data: bytes) -> None:
        """Append data; empty data ends the input.

        Raises ChannelFrameError when more than 256 KiB are unread.
        """
        self._given += len(data)
        if self._given - self._passed > frames.WINDOW:
            raise frames.ChannelFrameError("more input than the window allows")
        self._parts.put(data)

    def end(self) -> None:
        """End the input."""
        self._parts.put(b"")

    def forward(self, job: GuestJob, credit: Callable[[int], None]) -> None:
        """Write the input to the command as fast as the command reads it, until the input ends.

        ``credit`` is called with the bytes of each write. The call blocks, so it runs in a thread
        of its own. Raises GuestError.
        """
        while data := self._parts.get():
            job.write(data)
            self._passed += len(data)
            credit(len(data))
        job.close_input()

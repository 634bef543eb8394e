"""The TCP sessions of a function: received packets that may be merged with later ones.

A session holds the packets of one stream for one receive queue; the engine merges them
(``emu.device.engine.eth.sessions``). The packets have been received but are not yet in the guest's
memory. The packets are dropped with their queue.
"""

from __future__ import annotations

from typing import Any, Final

from emu.device.objects.eth.rq import Rq
from emu.device.ports import Timer

MAX_SESSIONS: Final = 64
"""Maximum number of sessions of a function; the packets of each fit into one of 64 KiB."""
MAX_HELD: Final = 512
"""Maximum number of packets in all sessions of a function."""

Key = tuple[int, bytes]
"""A receive queue's number, a stream's addresses and ports."""


class Sessions:
    """The open sessions of a function, the oldest first."""

    __slots__ = ("due_ns", "open", "packet_count", "timer")

    def __init__(self) -> None:
        self.open: dict[Key, Any] = {}
        self.packet_count = 0
        """Number of packets in all sessions."""
        self.timer: Timer | None = None
        self.due_ns = 0
        """Due time of the timer."""

    @property
    def are_too_many(self) -> bool:
        """Whether a session has to end."""
        return len(self.open) > MAX_SESSIONS or self.packet_count > MAX_HELD

    def forget(self, rq: Rq) -> None:
        """Drop the held packets and sessions of a queue that stops or is destroyed.

        None reaches memory.
        """
        for key in [key for key in self.open if key[0] == rq.handle]:
            self.packet_count -= len(self.open.pop(key).packets)
        rq.session_packets = 0

    def clear(self) -> None:
        """Drop all sessions with their packets, and cancel the timer, because all queues stop."""
        self.open.clear()
        self.packet_count = 0
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

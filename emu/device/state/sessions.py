"""What a function holds of TCP streams, so that packets which come one by one can be merged.

A session is the packets of one stream for one receive queue; how they are merged is the engine's
(``emu.device.engine.eth.sessions``). Its packets have been received but are nowhere in the guest's
memory yet: with their queue, they just go.
"""

from __future__ import annotations

from typing import Any, Final

from emu.device.objects.eth.rq import Rq
from emu.device.ports import Timer

MAX_SESSIONS: Final = 64
"""Of a function at a time; each one's packets are no longer than one of 64 KiB."""
MAX_HELD: Final = 512
"""Packets of all of them."""

Key = tuple[int, bytes]
"""A receive queue's number, a stream's addresses and ports."""


class Sessions:
    """The open sessions of a function, the oldest first."""

    __slots__ = ("due_ns", "open", "packet_count", "timer")

    def __init__(self) -> None:
        self.open: dict[Key, Any] = {}
        self.packet_count = 0
        """Packets in them."""
        self.timer: Timer | None = None
        self.due_ns = 0
        """When that is due."""

    @property
    def are_too_many(self) -> bool:
        """Whether one has to end."""
        return len(self.open) > MAX_SESSIONS or self.packet_count > MAX_HELD

    def forget(self, rq: Rq) -> None:
        """The queue stops or goes away: nothing is written for it any more."""
        for key in [key for key in self.open if key[0] == rq.handle]:
            self.packet_count -= len(self.open.pop(key).packets)
        rq.session_packets = 0

    def clear(self) -> None:
        """All queues stop."""
        self.open.clear()
        self.packet_count = 0
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

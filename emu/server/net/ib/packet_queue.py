"""Packets between functions of a process, queued until the loop's next round.

Functions of a process usually exchange whole messages. Fault injection into packets needs packets
instead; a queue pair that started with packets keeps using them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from emu.device.ports import Clock
from emu.device.rounds.budget import TIMER_BUDGET
from emu.device.rounds.sizes import PACKETS_PER_POLL

log = logging.getLogger(__name__)

ROOM = 256
MAX_PACKETS = 4096
"""Maximum number of queued packets; each requester sends at least one before it pauses."""


class PacketQueue:
    """Queues frames and delivers them in order in the loop's next round."""

    def __init__(self, clock: Clock, deliver: Callable[[bytes], None]) -> None:
        self._clock = clock
        self._deliver = deliver
        self._frames: deque[bytes] = deque()
        self._waiting: list[Callable[[], None]] = []
        self._is_running = False

    def add(self, frame: bytes) -> bool:
        """Queue a frame for a later round; return False when the next one should wait.

        False begins at ROOM frames. At MAX_PACKETS, the frame is dropped silently.
        """
        if len(self._frames) < MAX_PACKETS:
            self._frames.append(frame)
        self._start()
        return len(self._frames) < ROOM

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, in a later round with fewer than ROOM frames; never at once."""
        self._waiting.append(callback)
        self._start()

    def _start(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._clock.call_later(0, self._run)

    def _run(self) -> None:
        """Deliver queued frames, within a poll and the budget, then call the waiting senders.

        Senders are called only below ROOM frames. The rest waits for the next round.
        """
        for _ in range(min(len(self._frames), PACKETS_PER_POLL)):
            if self._clock.budget.exhausted(TIMER_BUDGET):
                break
            self._arrive(self._frames.popleft())
        self._is_running = False
        if len(self._frames) < ROOM:
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()
        if self._frames:
            self._start()

    def _arrive(self, frame: bytes) -> None:
        """Deliver a frame; log an exception, which drops only this frame."""
        try:
            self._deliver(frame)
        except Exception:
            log.exception("internal error: a packet is dropped")

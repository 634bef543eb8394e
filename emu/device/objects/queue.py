"""What all queues that a doorbell names have in common, whatever kind of work they hold."""

from __future__ import annotations

from emu.device.objects.domains import QUEUE_NUMBERS, QCounter
from emu.device.objects.send_queue import SendRing
from emu.device.objects.table import Object


class Queue(Object):
    """A queue that a doorbell names by its number, and that is then scheduled for turns.

    The subclass determines what a turn does (``emu.device.state.turns``).
    """

    __slots__ = ("counter", "has_failed", "is_ready", "uidx")
    numbering = QUEUE_NUMBERS

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = False
        """Whether it is in the device's ready list."""
        self.has_failed = False
        """Whether the device has stopped it because of an error, not a command."""
        self.counter: QCounter | None = None
        """The counter set that it adds to."""
        self.uidx: int | None = None
        """What its completions call it (user_index); None: nothing but its number."""

    @property
    def send_ring(self) -> SendRing | None:
        """Where its send requests are, if it has any."""
        return None

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter of the queue's set."""
        if self.counter is not None:
            self.counter.values[name] = self.counter.values.get(name, 0) + by

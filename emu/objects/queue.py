"""What all queues that a doorbell names have in common, whatever kind of work they hold."""

from __future__ import annotations

from emu.objects.table import Object


class Queue(Object):
    """A queue that a doorbell names by its number, and that is then scheduled for turns.

    The subclass determines what a turn does (``emu.engine.turn``).
    """

    __slots__ = ("is_ready",)

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = False
        """Whether it is in the device's ready list."""

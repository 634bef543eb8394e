"""Queues that a doorbell names: what they have in common, whatever work waits in them."""

from __future__ import annotations

from emu.objects.table import Object


class Queue(Object):
    """A queue whose doorbell names it by its number, and which then waits for turns.

    Its class says what a turn does (``emu.engine.turn``).
    """

    __slots__ = ("is_ready",)

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = False
        """Whether it stands in the device's ready list."""

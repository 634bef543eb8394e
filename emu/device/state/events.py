"""The events of a function: which event queue gets each type, and its interrupt vectors.

``emu.device.engine.events`` writes the entries and raises the interrupts.
"""

from __future__ import annotations

from emu.device.objects.memory.ring_page import RingPages
from emu.device.objects.queues.eq import Eq, VectorModeration
from emu.device.ports import Clock, Interrupts
from emu.device.state.probes import Probes
from layouts.enums.eqe import EventType


class Events:
    """All that reporting an event needs."""

    __slots__ = (
        "clock", "interrupts", "probes", "ring_pages", "subscribers", "vector_moderation",
    )  # fmt: skip

    def __init__(
        self, interrupts: Interrupts, clock: Clock, probes: Probes, ring_pages: RingPages
    ) -> None:
        self.interrupts = interrupts
        self.clock = clock
        """Clock of the current objects (``Hca.clock``)."""
        self.probes = probes
        self.ring_pages = ring_pages
        """The views of the pages of rings."""
        self.vector_moderation: dict[int, VectorModeration] = {}
        """Interrupt vectors with a minimum interval between interrupts."""
        self.subscribers: dict[EventType, Eq] = {}
        """The EQ that subscribed last to each asynchronous event type."""

    def subscribe(self, eq: Eq) -> None:
        """Send the asynchronous event types in the EQ's mask to this EQ from now on.

        An earlier EQ gets them no more. COMP is left out: each CQ names its own EQ.
        """
        for event in EventType:
            if event is not EventType.COMP and eq.events >> event & 1:
                self.subscribers[event] = eq

    def unsubscribe(self, eq: Eq) -> None:
        """Remove the subscriptions of an EQ that is being destroyed.

        Its event types have no EQ then.
        """
        self.subscribers = {
            kind: owner for kind, owner in self.subscribers.items() if owner is not eq
        }

"""The completions of a function: what an entry of a CQ is written with, and counts of entries.

``emu.device.engine.events`` writes the entries.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.device.objects.queues.cq import Cq
from emu.device.ports import GuestMemory
from emu.device.rounds.budget import Budget
from emu.device.state.events import Events
from emu.device.state.parts.scheduler import Scheduler
from emu.device.state.timer import FreeRunningTimer


class Completions:
    """All that writing a completion needs, except its queue and CQ."""

    __slots__ = (
        "budget", "compressed", "contained", "errors", "events", "holding", "memory", "overruns",
        "probes", "ring_pages", "scheduler", "ticks",
    )  # fmt: skip

    def __init__(
        self,
        memory: GuestMemory,
        events: Events,
        scheduler: Scheduler,
        budget: Budget,
        ticks: FreeRunningTimer,
        contained: Callable[[Callable[[], object]], None],
    ) -> None:
        """Create the part; ``contained`` makes a call whose exception fails the function."""
        self.events = events
        self.probes = events.probes
        self.ring_pages = events.ring_pages
        self.memory = memory
        self.scheduler = scheduler
        """Stops the queues of a CQ that has failed."""
        self.budget = budget
        self.ticks = ticks
        """The free-running timer, which time-stamps CQEs (internal_timer)."""
        self.contained = contained
        self.holding: list[Cq] = []
        """CQs that hold packets until :meth:`Budget.release` of the round."""
        self.errors = 0
        """Number of CQEs of failed requests, including flushed ones."""
        self.compressed = 0
        """Number of packets whose CQEs share an entry with others."""
        self.overruns = 0
        """Number of CQs that have overrun and take no more CQEs."""

    def forget_held(self) -> None:
        """Drop the packets that CQs hold."""
        for cq in self.holding:
            cq.waiting.clear()
        self.holding.clear()

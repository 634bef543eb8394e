"""Event queues, and interrupt moderation of their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.device.objects.memory.pages import PageList
from emu.device.objects.memory.ring_page import RingPage
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from emu.device.ports import Timer

if TYPE_CHECKING:
    from layouts.objects.eq import eqc


class Eq(Object):
    """An event queue; ``emu.device.engine.events.eq`` writes it."""

    __slots__ = (
        "armed", "buffer", "ci", "ctx", "entries", "events", "has_write_failed", "is_losing",
        "log_size", "overruns", "page", "pi", "uar_page", "vector",
    )  # fmt: skip
    kind = "eq"
    numbering = Numbering(
        lambda made: (made.caps.general_2.max_num_eqs_24b or made.caps.general.max_num_eqs) + 1
    )
    BASE_BYTES = 1024

    def __init__(self, ctx: eqc, events: int, buffer: PageList) -> None:
        super().__init__()
        self.ctx = ctx
        self.events = events
        self.buffer = buffer
        self.page = RingPage()
        """The page of the last entry."""
        self.log_size = int(ctx.log_eq_size)
        self.entries = 1 << self.log_size
        self.vector = int(ctx.intr)
        self.uar_page = int(ctx.uar_page)
        """The doorbell page for its doorbells."""
        self.armed = False
        self.pi = 0
        self.ci = 0
        self.overruns = 0
        """Number of events lost because the ring was full."""
        self.is_losing = False
        """Whether the last event was lost."""
        self.has_write_failed = False
        """Whether an event was lost because its page was not guest memory."""

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.buffer.host_bytes

    def about(self) -> dict[str, object]:
        """Return size, indices, vector, arming state and the number of lost events."""
        return {
            "entries": 1 << self.log_size, "pi": self.pi, "ci": self.ci, "vector": self.vector,
            "armed": self.armed, "overruns": self.overruns,
        }  # fmt: skip


@dataclass(slots=True)
class VectorModeration:
    """The setting of a vector, and its delayed interrupt."""

    delay_ns: int
    ready_ns: int = 0
    """Earliest time of the next interrupt."""
    timer: Timer | None = None
    """Runs while an interrupt is delayed."""

    def stop(self) -> None:
        """Cancel the delayed interrupt, which is not raised."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

"""Completion queues and the moderation of their events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from emu.device.objects.memory.pages import PageList
from emu.device.objects.memory.ring_page import RingPage
from emu.device.objects.memory.umem import Umem
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from emu.device.objects.queues.eq import Eq
from emu.device.ports import Timer
from layouts.enums.cq import CompressionLayout, CqNotification, CqStatus
from layouts.enums.cqe import MiniCqeFormat
from layouts.rings.cqe import CQE_BYTES

if TYPE_CHECKING:
    from layouts.objects.cq import cqc


class Compression(NamedTuple):
    """The compression mode of a CQ."""

    form: MiniCqeFormat
    is_enhanced: bool
    limit: int
    """Maximum number of packets in a session (cqe_compression_max_num)."""


class CqPage(RingPage):
    """The page of a completion queue's last entry, and a run of entries there.

    The entries of a run need no check (:meth:`Cq.begin_run`). ``run_end`` is the producer index
    behind it, 0 without one; ``run_base`` where index 0 would be in the view; ``run_owner`` the
    owner bit.
    """

    __slots__ = ("run_base", "run_end", "run_owner")

    def __init__(self) -> None:
        super().__init__()
        self.run_base = self.run_end = self.run_owner = 0

    def forget(self) -> None:
        super().forget()
        self.run_end = 0


class Cq(Object):
    """A completion queue; ``emu.device.engine.events.cq`` writes it."""

    __slots__ = (
        "buffer", "ci", "compression", "ctx", "dbr_addr", "entries", "eq", "ignores_overrun",
        "is_collapsed", "is_enhanced", "last_half", "log_size", "mask", "moderation",
        "notification", "notified_pi", "page", "pi", "solicited_pi", "status", "stride", "uar_page",
        "umems", "waiting",
    )  # fmt: skip
    kind = "cq"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_cq)
    BASE_BYTES = 1024

    def __init__(
        self,
        ctx: cqc,
        eq: Eq,
        buffer: PageList,
        stride: int,
        dbr_addr: int,
        umems: tuple[Umem, ...] = (),
        compression: Compression | None = None,
    ) -> None:
        super().__init__()
        self.ctx = ctx
        self.eq = eq
        self.umems = umems
        self.stride = stride
        """Bytes from one entry to the next."""
        self.last_half = stride - CQE_BYTES
        """Offset of the CQE in an entry: the CQE is the last 64 bytes."""
        self.dbr_addr = dbr_addr
        self.uar_page = int(ctx.uar_page)
        """The doorbell page in which the CQ is armed."""
        self.ignores_overrun = bool(ctx.oi)
        self.is_collapsed = bool(ctx.cc)
        """Whether each CQE overwrites the previous one, in the first entry."""
        self.is_enhanced = ctx.cqe_compression_layout == CompressionLayout.ENHANCED
        """Whether the driver detects valid entries by an iteration count."""
        self.compression = compression
        self.waiting: list[bytes] = []
        """Packets of an open compression session, which have no entries yet."""
        self.moderation: Moderation | None = None
        self.status = CqStatus.OK
        self.notification = CqNotification.FIRED
        self.pi = 0
        self.ci = 0
        """Last known consumer index; the record is read again only when the ring seems full."""
        self.solicited_pi = 0
        """Producer index after the newest solicited completion."""
        self.notified_pi = 0
        """Producer index at the last event."""
        self.page = CqPage()
        """The page of the last entry."""
        self.move(buffer, int(ctx.log_cq_size))

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.buffer.host_bytes

    def move(self, buffer: PageList, log_size: int) -> None:
        """Switch to this buffer of ``1 << log_size`` entries for the next entry (resize).

        Copy nothing.
        """
        self.page.forget()
        self.buffer = buffer
        self.log_size = log_size
        self.entries = 1 << log_size
        self.mask = 0 if self.is_collapsed else self.entries - 1
        """Masks a producer index to its slot in the ring."""

    def begin_run(self, at: int) -> None:
        """Let entries follow the one at offset ``at``, in its page, without a check of each.

        The run ends with the page, with the lap, and where the driver may not have read yet. An
        entry of another size than 64 bytes, or of a collapsed or compressing queue, begins no run.
        """
        if self.last_half or self.is_collapsed or self.compression is not None:
            return
        page, pi = self.page, self.pi
        in_page = (page.limit - 1 - at) // CQE_BYTES
        in_lap = self.mask - (pi & self.mask)
        page.run_end = min(pi + 1 + min(in_page, in_lap), self.ci + self.entries)
        page.run_base = at - page.start - pi * CQE_BYTES
        page.run_owner = pi >> self.log_size & 1

    def stop_waiting(self) -> None:
        """Cancel an event that moderation is delaying, and reset its count.

        The event is not raised.
        """
        if self.moderation is not None:
            self.moderation.restart()

    def cancel_work(self) -> int:
        self.stop_waiting()
        return 0

    def encode(self) -> cqc:
        """Write status, arming state and indices into the context; return it, for QUERY_CQ.

        Indices are cut to 24 bits.
        """
        ctx = self.ctx
        ctx.status, ctx.st = self.status, self.notification
        ctx.last_notified_index = self.notified_pi & 0xFFFFFF
        ctx.last_solicit_index = self.solicited_pi & 0xFFFFFF
        ctx.producer_counter, ctx.consumer_counter = self.pi & 0xFFFFFF, self.ci & 0xFFFFFF
        return ctx

    def about(self) -> dict[str, object]:
        """Return size, indices, EQ number, status and arming state."""
        return {
            "entries": self.entries, "pi": self.pi, "ci": self.ci, "eqn": self.eq.handle,
            "status": self.status.name, "notification": self.notification.name,
        }  # fmt: skip

    def holds(self) -> tuple[Object, ...]:
        return (self.eq, *self.umems)


@dataclass(slots=True)
class Moderation:
    """Delays events until ``max_count`` entries or ``period_ns`` have accumulated."""

    max_count: int
    period_ns: int
    starts_from_cqe: bool = False
    """Whether each entry restarts the period (cq_period_mode START_FROM_CQE)."""
    entries: int = 0
    """Number of entries since the last event."""
    timer: Timer | None = None
    """Runs from the first of these entries on."""
    due_ns: int = 0
    """End of the newest entry's period, if each entry restarts the period."""

    def restart(self) -> None:
        """Reset the count and cancel the timer, after an event or to drop one that is delayed."""
        self.entries = 0
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

"""Ethernet send queues (SQ)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.objects.domains import LoopbackSource, Pd
from emu.device.objects.eth.pacing import Pacing, SchedulingElement
from emu.device.objects.eth.tis import Tis
from emu.device.objects.memory.pages import PageList
from emu.device.objects.memory.umem import Umem
from emu.device.objects.object import Object
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.queue import QUEUE_NUMBERS, Queue
from emu.device.objects.queues.send_queue import SendRing
from emu.device.ports import Timer
from layouts.enums.wq import SqState

if TYPE_CHECKING:
    from layouts.objects.sq import sqc

ETHERNET_HEADER_BYTES: Final = 14
"""Minimum bytes of inline mode L2; mlx5e posts 18 when there is a VLAN tag."""


class AnySq(Queue):
    """A send queue of either kind: for the driver's WQEs, or for packets of a hairpin.

    ``tis`` carries the frames; a queue that sends no frames has none.
    """

    __slots__ = (
        "allows_swp", "ctx", "flush_in_error", "group", "pacing", "rlky", "source", "state",
        "timer", "tis", "traffic_class",
    )  # fmt: skip
    kind = "sq"
    numbering = QUEUE_NUMBERS.at_most(lambda made: 1 << made.caps.general.log_max_sq)
    BASE_BYTES = 2048

    def __init__(self, ctx: sqc, ring: SendRing | None = None, tis: Tis | None = None) -> None:
        super().__init__(ring)
        self.ctx = ctx
        self.rlky = bool(ctx.rlky)
        """Whether its WQEs may use the reserved lkey."""
        self.flush_in_error = bool(ctx.flush_in_error_en)
        """Whether posted WQEs complete with errors when the queue enters ERR."""
        self.allows_swp = bool(ctx.allow_swp)
        """Whether WQEs may give the offsets of inner headers (software parser)."""
        self.tis = tis
        self.source: LoopbackSource | None = None
        """Identity of the frames when they are looped back to the function; None: no loopback."""
        self.state = SqState.RST
        self.group: SchedulingElement | None = None
        """The queue group of this queue."""
        self.pacing: Pacing | None = None
        """The rate limits; None for unlimited."""
        self.traffic_class: int | None = None
        """The class of its latest frame, where the vPort has rates by class."""
        self.timer: Timer | None = None
        """Fires when pacing admits the next WQE."""

    def restart(self) -> None:
        """Reset the queue, which went to RST; empty here, subclasses reset ring or pairing."""

    def encode(self) -> sqc:
        """Write the values that the engine has changed into the context; return it for a query."""
        self.ctx.state = self.state
        return self.ctx

    def stop_waiting(self) -> None:
        """Cancel the timer of pacing; the claims on bandwidth stay."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def cancel_work(self) -> int:
        """Enter RST and cancel the waits of pacing, as the function has stopped.

        Returns 2, or 0 for a queue without timer and rate limits.
        """
        self.state = SqState.RST
        if self.timer is None and self.pacing is None:
            return 0
        self.stop_waiting()
        if self.pacing is not None:
            self.pacing.stop_waiting()
        return 2

    def join(self, group: SchedulingElement | None) -> None:
        """Move the queue, which is in a table, to another queue group or to none.

        References move along; ``pacing`` is not changed.
        """
        if group is not None:
            group.refs += 1
        if self.group is not None:
            self.group.refs -= 1
        self.group = group

    def holds(self) -> tuple[Object, ...]:
        return tuple(part for part in (self.tis, self.group) if part is not None)


class Sq(AnySq):
    """A queue of WQEs. WQEs, doorbell and doorbell record are those of a queue pair."""

    __slots__ = (
        "buffer", "cq", "is_ipoib", "min_inline", "pd", "registers", "ring", "ts_cq", "umems",
    )  # fmt: skip

    def __init__(
        self,
        ctx: sqc,
        cq: Cq,
        pd: Pd,
        ring: SendRing,
        buffer: PageList,
        tis: Tis | None = None,
        umems: tuple[Umem, ...] = (),
        ts_cq: Cq | None = None,
    ) -> None:
        super().__init__(ctx, ring, tis)
        self.source = tis.td.add_sender() if tis is not None else None
        self.cq = cq
        self.pd = pd
        self.ring = ring
        self.buffer = buffer
        self.umems = umems
        self.ts_cq = ts_cq
        """The CQ for time stamps of packets that have left the port."""
        self.is_ipoib = tis is not None and tis.underlay is not None
        """Whether its WQEs are datagrams of IP over InfiniBand."""
        self.min_inline = ETHERNET_HEADER_BYTES if ctx.min_wqe_inline_mode else 0
        """Minimum bytes of inline headers in a frame's WQE. Inline modes beyond L2 require more
        only for packets with those headers (core/en_tx.c: mlx5e_calc_min_inline), so the device
        does not check them."""
        self.registers = bool(ctx.reg_umr or ctx.fre)
        """Whether its WQEs may change memory keys, also those over physical addresses."""

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.buffer.host_bytes

    def restart(self) -> None:
        """Empty the ring, which the driver counts from 0 again."""
        self.ring.restart()

    def encode(self) -> sqc:
        self.ctx.wq.hw_counter = self.ring.ci
        self.ctx.wq.sw_counter = self.ring.produced()
        return super().encode()

    def holds(self) -> tuple[Object, ...]:
        own = (part for part in (self.cq, self.pd, self.ts_cq) if part is not None)
        return (*super().holds(), *own, *self.umems)

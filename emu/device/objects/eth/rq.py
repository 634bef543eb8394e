"""Ethernet receive queues (RQ)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.objects.domains import Pd, QCounter
from emu.device.objects.eth.hairpin import Hairpin
from emu.device.objects.eth.reservations import Reservations
from emu.device.objects.eth.strides import Strides
from emu.device.objects.memory.umem import Umem
from emu.device.objects.object import Object
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.queue import FIRST_QPN, QUEUE_NUMBERS, Queue
from emu.device.objects.queues.receive_queue import RecvQueue
from emu.device.objects.queues.srq import Srq
from emu.device.ports import Timer
from layouts.enums.wq import RqState

if TYPE_CHECKING:
    from layouts.objects.rq import rqc


class Rq(Queue):
    """A receive queue, with its own WQEs or those of an RMP.

    No doorbell names an RQ: the driver only advances the counter in the doorbell record. Polls of
    the queue serve flushing in ERR.
    """

    __slots__ = (
        "_list_bytes", "cq", "ctx", "flush_in_error", "hairpin", "most_merged", "pd",
        "poll_interval_ns", "queue", "reservations", "rlky", "rmp", "scatters_fcs",
        "session_packets", "state", "strides", "strips", "timer", "umems",
    )  # fmt: skip
    kind = "rq"
    numbering = QUEUE_NUMBERS.at_most(
        lambda made: FIRST_QPN - 1 + (1 << made.caps.general.log_max_rq)
    )
    BASE_BYTES = 4096

    def __init__(
        self,
        ctx: rqc,
        queue: RecvQueue,
        cq: Cq | None,
        counter: QCounter | None,
        *,
        pd: Pd | None = None,
        rmp: Srq | None = None,
        umems: tuple[Umem, ...] = (),
        host_bytes: int = 0,
        strides: Strides | None = None,
        reservations: Reservations | None = None,
        hairpin: Hairpin | None = None,
    ) -> None:
        """Create a queue in RST; ``host_bytes`` is the cost of its own lists on the host.

        Only a ``hairpin`` has no ``cq``; the hairpin is also the ``queue``. A queue that only drops
        has no protection domain: mlx5e creates one without.
        """
        super().__init__()
        self.ctx = ctx
        self.rlky = bool(ctx.rlky)
        """Whether its WQEs may use the reserved lkey."""
        self.flush_in_error = bool(ctx.flush_in_error_en)
        """Whether posted WQEs complete with errors when the queue enters ERR."""
        self.cq = cq
        self.pd = pd
        self.rmp = rmp
        self.umems = umems
        self.counter = counter
        self.queue = queue
        self.strides = strides
        """Layout of the strides of a WQE; None for a queue with a WQE for each packet."""
        self.reservations = reservations
        """Placement of headers and data; None for a queue that keeps packets whole."""
        self.hairpin = hairpin
        """Packets that wait for a send queue of the adapter; None for a queue of WQEs."""
        self.session_packets = 0
        """Number of packets that are held for merging."""
        self.most_merged = 0
        """Maximum bytes of the packet that they are merged into."""
        self.state = RqState.RST
        self.strips = False
        """Whether the queue strips the VLAN tag of each frame into the completion."""
        self.scatters_fcs = False
        """Whether the frame check sequence follows each packet's data."""
        self.timer: Timer | None = None
        """In ERR: the next poll for WQEs to flush."""
        self.poll_interval_ns = 0
        """In ERR: nanoseconds between the last poll and the next."""
        self._list_bytes = host_bytes
        self.decode()

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self._list_bytes

    def decode(self) -> None:
        """Extract VLAN stripping and FCS scattering from the context that a command has changed.

        Both are off for a hairpin.
        """
        receives = self.hairpin is None  # a hairpin forwards packets unchanged
        self.strips = receives and not self.ctx.vsd
        self.scatters_fcs = receives and bool(self.ctx.scatter_fcs)

    def encode(self) -> rqc:
        """Write the state and the ring's counters into the context; return it, for QUERY_RQ.

        A queue over an RMP has no counters of its own. OpenBSD's if_mcx.c shows the counters
        (kstat).
        """
        self.ctx.state = self.state
        if self.rmp is None:
            self.ctx.wq.hw_counter = self.queue.consumed
            self.ctx.wq.sw_counter = self.queue.produced()
        return self.ctx

    @property
    def size_frames(self) -> int:
        """Number of short packets that fit when all WQEs are posted."""
        return self.queue.size * (1 if self.strides is None else self.strides.count)

    def frames(self, longest: int) -> int:
        """Return the number of packets of ``longest`` bytes that the posted WQEs can take.

        Packets held for merging reduce the number, which is never negative. Raises DmaError if the
        doorbell record is unreadable.
        """
        posted = self.queue.posted()
        if self.strides is None:
            return posted
        return max(self.strides.frames(posted, longest, self.most_merged) - self.session_packets, 0)

    def about(self) -> dict[str, object]:
        return {} if self.hairpin is None else self.hairpin.about()

    def stop_waiting(self) -> None:
        """Cancel the timer of flushing in ERR."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def cancel_work(self) -> int:
        self.state = RqState.RST
        self.stop_waiting()
        return 0

    def holds(self) -> tuple[Object, ...]:
        references = (self.cq, self.pd, self.rmp, self.counter)
        return (*(part for part in references if part is not None), *self.umems)

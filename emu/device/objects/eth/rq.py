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
from layouts.eth_enums import RqState

if TYPE_CHECKING:
    from layouts.objects.rq import Rqc


class Rq(Queue):
    """A receive queue, with WQEs of its own or those of an RMP.

    No doorbell names it: the driver only advances the counter in the doorbell record. Its turns are
    for what it flushes in ERR.
    """

    __slots__ = (
        "_list_bytes",
        "cq",
        "ctx",
        "hairpin",
        "look_ns",
        "most_merged",
        "pd",
        "queue",
        "reservations",
        "rmp",
        "scatters_fcs",
        "session_packets",
        "state",
        "strides",
        "strips",
        "timer",
        "umems",
    )  # fmt: skip
    kind = "rq"
    numbering = QUEUE_NUMBERS.at_most(
        lambda made: FIRST_QPN - 1 + (1 << made.caps.general.log_max_rq)
    )
    BASE_BYTES = 4096

    def __init__(
        self,
        ctx: Rqc,
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
        """``host_bytes`` is what lists of its own cost the host.

        Only a ``hairpin`` reports to no ``cq``, and is its ``queue`` as well. A queue that only
        drops has no protection domain: mlx5e creates one without.
        """
        super().__init__()
        self.ctx = ctx
        self.cq = cq
        self.pd = pd
        self.rmp = rmp
        self.umems = umems
        self.counter = counter
        self.queue = queue
        self.strides = strides
        """How its requests are cut; None for a queue with a request for each packet."""
        self.reservations = reservations
        """Where headers and data go; None for a queue that keeps packets whole."""
        self.hairpin = hairpin
        """Where packets wait for a send queue of the adapter; None for a queue of requests."""
        self.session_packets = 0
        """Packets that wait for others to be merged with."""
        self.most_merged = 0
        """Bytes of the longest packet that they may become."""
        self.state = RqState.RST
        self.strips = False
        """Whether it takes the VLAN tag off each frame and puts it into the completion."""
        self.scatters_fcs = False
        """Whether each packet has its frame check sequence behind it."""
        self.timer: Timer | None = None
        """In ERR: when it looks again for requests to flush."""
        self.look_ns = 0
        """In ERR: how long after the last look that is."""
        self._list_bytes = host_bytes
        self.decode()

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self._list_bytes

    def decode(self) -> None:
        """Extract the values from the context after a command has changed it."""
        receives = self.hairpin is None  # a hairpin sends packets on as they are
        self.strips = receives and not self.ctx.vsd
        self.scatters_fcs = receives and bool(self.ctx.scatter_fcs)

    def encode(self) -> None:
        """Write the values that the engine has changed back into the context, for a query.

        OpenBSD's if_mcx.c shows the counters of a queue (kstat).
        """
        self.ctx.state = self.state
        if self.rmp is None:
            self.ctx.wq.hw_counter = self.queue.consumed
            self.ctx.wq.sw_counter = self.queue.produced()

    @property
    def size_frames(self) -> int:
        """How many short packets it has room for when all requests are posted."""
        return self.queue.size * (1 if self.strides is None else self.strides.count)

    def frames(self, longest: int) -> int:
        """How many packets of ``longest`` bytes it has receive requests for, and none to put there.

        Raises DmaError.
        """
        posted = self.queue.posted()
        if self.strides is None:
            return posted
        return max(self.strides.frames(posted, longest, self.most_merged) - self.session_packets, 0)

    def about(self) -> dict[str, object]:
        return {} if self.hairpin is None else self.hairpin.about()

    def stop_waiting(self) -> None:
        """Forget the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def give_up(self) -> int:
        self.state = RqState.RST
        self.stop_waiting()
        return 0

    def holds(self) -> tuple[Object, ...]:
        references = (self.cq, self.pd, self.rmp, self.counter)
        return (*(part for part in references if part is not None), *self.umems)

"""Ethernet send queues (SQ)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.objects.domains import Pd
from emu.device.objects.eth.pacing import Pacing, SchedulingElement
from emu.device.objects.eth.tir import Tis
from emu.device.objects.memory.pages import PageList
from emu.device.objects.memory.umem import Umem
from emu.device.objects.object import Object
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.queue import QUEUE_NUMBERS, Queue
from emu.device.objects.queues.send_queue import SendRing
from emu.device.ports import Timer
from layouts.eth_enums import SqState

if TYPE_CHECKING:
    from layouts.objects.sq import Sqc

ETHERNET_HEADER_BYTES: Final = 14
"""What inline mode L2 wants at least: mlx5e gives 18 when there is a VLAN tag."""


class Sq(Queue):
    """A send queue. Its WQEs, doorbell and doorbell record are those of a queue pair's.

    ``tis`` is what its frames leave through; a queue for the driver's own requests has none.
    """

    __slots__ = (
        "buffer",
        "cq",
        "ctx",
        "group",
        "is_ipoib",
        "min_inline",
        "pacing",
        "pd",
        "registers",
        "ring",
        "state",
        "timer",
        "tis",
        "ts_cq",
        "umems",
    )
    kind = "sq"
    numbering = QUEUE_NUMBERS.at_most(lambda made: 1 << made.caps.general.log_max_sq)
    BASE_BYTES = 2048

    def __init__(
        self,
        ctx: Sqc,
        cq: Cq,
        pd: Pd,
        ring: SendRing,
        buffer: PageList,
        tis: Tis | None = None,
        umems: tuple[Umem, ...] = (),
        ts_cq: Cq | None = None,
    ) -> None:
        super().__init__(ring)
        self.ctx = ctx
        self.cq = cq
        self.pd = pd
        self.ring = ring
        self.buffer = buffer
        self.tis = tis
        self.umems = umems
        self.ts_cq = ts_cq
        """Where it is told that a packet has left by the port."""
        self.is_ipoib = tis is not None and tis.underlay is not None
        """Whether its requests are datagrams of IP over InfiniBand."""
        self.min_inline = ETHERNET_HEADER_BYTES if ctx.min_wqe_inline_mode else 0
        """Bytes of headers that a frame's request must have inline. Modes for more than the
        Ethernet header want more only of packets that have it (core/en_tx.c:
        mlx5e_calc_min_inline), so they are not checked."""
        self.registers = bool(ctx.reg_umr or ctx.fre)
        """Whether its requests may change memory keys, also those over physical addresses."""
        self.state = SqState.RST
        self.group: SchedulingElement | None = None
        """The queue group that it belongs to."""
        self.pacing: Pacing | None = None
        """The rates that it goes by; None for as fast as it can."""
        self.timer: Timer | None = None
        """When it goes on, while it waits for its time."""

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.buffer.host_bytes

    def encode(self) -> None:
        """Write the values that the engine has changed back into the context, for a query."""
        self.ctx.state = self.state
        self.ctx.wq.hw_counter = self.ring.ci
        self.ctx.wq.sw_counter = self.ring.produced()

    def stop_waiting(self) -> None:
        """Forget the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def join(self, group: SchedulingElement | None) -> None:
        """Belong to another queue group from now on, or to none; the queue is in a table."""
        if group is not None:
            group.refs += 1
        if self.group is not None:
            self.group.refs -= 1
        self.group = group

    def holds(self) -> tuple[Object, ...]:
        references = (self.cq, self.pd, self.tis, self.ts_cq, self.group)
        return (*(part for part in references if part is not None), *self.umems)

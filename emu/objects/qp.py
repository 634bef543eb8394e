"""Queue pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from emu.objects.cq import Cq
from emu.objects.domains import Pd, QCounter, Xrcd
from emu.objects.pages import PageList
from emu.objects.queue import Queue
from emu.objects.srq import Srq
from emu.objects.table import Object
from emu.objects.users import Umem
from emu.ports import Timer
from layouts.enums import QpState, QpType

if TYPE_CHECKING:
    from emu.objects.message import Message
    from emu.objects.page_fault import Fault, Page, Side
    from emu.objects.receive_queue import Arrival, RecvRing
    from emu.objects.send_queue import SendRing

_MTU_BYTES = {code: 128 << code for code in range(1, 6)}
"""IBTA MTU codes: 1 is 256 bytes, 5 is 4096."""

_SMALLEST_MTU = 256


class Connection(Protocol):
    """What only packets need of a connected queue pair (``emu.engine.packets.link``)."""

    def reload(self) -> None:
        """A command has changed the context."""

    def dissolve(self) -> None:
        """The queue pair has no use for it any more."""

    def pause(self) -> None:
        """The queue pair changes its state, or it is destroyed: no timer runs."""

    def stop(self) -> None:
        """SQER or ERR: requests that are under way will be flushed from the ring."""

    def unfinished(self) -> Sequence[Arrival]:
        """Receive requests that no message has filled yet."""

    @property
    def is_awaiting(self) -> bool:
        """Whether requests are under way that no response has completed."""

    def respond(self) -> bool:
        """Take and answer a share of the requests that have come; True when there is more."""


@dataclass(frozen=True, slots=True)
class QpParts:
    """What a queue pair refers to."""

    pd: Pd | None = None
    scq: Cq | None = None
    rcq: Cq | None = None
    srq: Srq | None = None
    xrcd: Xrcd | None = None
    counter: QCounter | None = None
    umems: tuple[Umem, ...] = ()

    def all(self) -> tuple[Object, ...]:
        """Those that are there."""
        held = (self.pd, self.scq, self.rcq, self.srq, self.xrcd, self.counter)
        return (*(part for part in held if part is not None), *self.umems)


class Qp(Queue):
    """A queue pair.

    ``ctx`` is the context as the commands have set it; ``decode`` takes over what the engine needs
    of it at every message. State, PSNs and retry counts live here and are written back into the
    context when it is queried.
    """

    __slots__ = (
        "ack_timeout", "buffer", "counter", "ctx", "epsn", "faults", "held_by", "is_draining",
        "kept", "link", "log_msg_max", "max_datagram", "mcgs", "min_rnr_nak",
        "moving", "mtu_bytes", "parts", "pd", "pkey_index", "psn", "q_key", "rae", "rcq",
        "refaults", "remote_qpn", "retries", "retry_count", "rlid", "rnr_retries", "rnr_retry",
        "rq", "rre", "rwe", "scq", "serial", "sq", "srq", "st", "state", "timer", "xrcd",
    )  # fmt: skip
    kind = "qp"
    BASE_BYTES = 8192
    """With what packets need, and with a receive request at work on each side."""

    def __init__(
        self,
        ctx: Any,
        parts: QpParts,
        buffer: PageList,
        sq: SendRing | None,
        rq: RecvRing | None,
    ) -> None:
        super().__init__()
        self.ctx = ctx
        self.buffer = buffer
        self.parts = parts
        self.st = QpType(ctx.st)
        self.pd = parts.pd
        self.scq = parts.scq
        self.rcq = parts.rcq
        self.srq = parts.srq
        self.xrcd = parts.xrcd
        self.counter = parts.counter
        self.sq = sq
        self.rq = rq
        self.serial = 0
        """Tells it from all other queue pairs that have, or have had, its number; from 1 on."""
        self.mcgs: set[bytes] = set()
        """Multicast GIDs that it is attached to."""
        self.is_draining = False
        """It goes to SQD when what it is sending is complete: a signature was wrong."""
        self.timer: Timer | None = None
        """What it waits for: a retry, or the next look at its receive queue."""
        self.retries = self.rnr_retries = 0
        self.link: Connection | None = None
        """What only packets need; None while the peer is in this process."""
        self.faults: dict[Side, Fault] = {}
        """What its sides wait for."""
        self.refaults: dict[Side, tuple[Page, int]] = {}
        """The page that a side waited for last, and how many times in a row."""
        self.held_by: Fault | None = None
        """The fault of the peer in this process that holds up its requests."""
        self.kept: Arrival | None = None
        """The receive request of a message that waits for a page: it will come again."""
        self.moving: Message | None = None
        """A message that takes several turns, and has had some."""
        self.state = QpState.RST
        self.decode()

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.buffer.host_bytes

    def decode(self) -> None:
        """A transition has changed the context."""
        ctx = self.ctx
        path = ctx.primary_address_path
        self.rre, self.rwe, self.rae = ctx.rre, ctx.rwe, ctx.rae
        self.psn, self.epsn = int(ctx.next_send_psn), int(ctx.next_rcv_psn)
        self.remote_qpn, self.rlid = int(ctx.remote_qpn), int(path.rlid)
        self.pkey_index, self.q_key = int(path.pkey_index), int(ctx.q_key)
        self.mtu_bytes = _MTU_BYTES.get(ctx.mtu, _SMALLEST_MTU)
        self.log_msg_max = int(ctx.log_msg_max)
        self.max_datagram = self.mtu_bytes
        self.ack_timeout, self.retry_count = int(path.ack_timeout), int(ctx.retry_count)
        self.rnr_retry, self.min_rnr_nak = int(ctx.rnr_retry), int(ctx.min_rnr_nak)
        if self.link is not None:
            self.link.reload()

    def encode(self) -> None:
        """Write what the engine has changed back into the context, for a query."""
        self.ctx.state = self.state
        self.ctx.next_send_psn, self.ctx.next_rcv_psn = self.psn, self.epsn
        if self.sq is not None:
            self.ctx.hw_sq_wqebb_counter = self.sq.ci

    def stop_waiting(self) -> None:
        """Forget the timer, the retries that led to it, and a message that was being moved."""
        self.moving = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.link is not None:
            self.link.pause()
        self.retries = self.rnr_retries = 0

    def unlink(self) -> None:
        """Let go of what only packets need. What waits for it has been told."""
        if self.link is not None:
            self.link.dissolve()
            self.link = None

    def restart(self) -> None:
        """State RST: the driver starts counting at 0 again."""
        self.unlink()
        self.is_draining = False
        self.refaults.clear()
        if self.sq is not None:
            self.sq.restart()
        if self.rq is not None:
            self.rq.restart()

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter of the queue pair's set."""
        if self.counter is not None:
            self.counter.values[name] = self.counter.values.get(name, 0) + by

    def holds(self) -> tuple[Object, ...]:
        return self.parts.all()

"""Queue pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from emu.device.objects.domains import Pd, QCounter, Xrcd
from emu.device.objects.memory.pages import PageList
from emu.device.objects.memory.umem import Umem
from emu.device.objects.object import Object
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.direct_path import DirectPath
from emu.device.objects.queues.pace import Pace
from emu.device.objects.queues.qp_context import QpContext
from emu.device.objects.queues.rendezvous import AdapterRequests
from emu.device.objects.queues.srq import Srq
from emu.device.objects.queues.streams import DciStreams
from emu.device.ports import Timer
from emu.device.rounds.sizes import COST_OF_ENDING
from layouts.enums.qp import PmState, QpState, QpType

if TYPE_CHECKING:
    from emu.device.objects.queues.dct import Responder
    from emu.device.objects.queues.message import Message
    from emu.device.objects.queues.page_fault import Page, PageFault, Side
    from emu.device.objects.queues.receive_queue import RecvRing
    from emu.device.objects.queues.receive_request import ReceiveRequest
    from emu.device.objects.queues.send_queue import SendRing
    from layouts.objects.qp import qpc

_SILENT: Final = (QpState.RST, QpState.INIT, QpState.ERR)
"""States in which the queue pair receives no messages."""


class ConnectionEnd(Protocol):
    """The requester or the responder of a queue pair that sends packets."""

    def poll(self) -> bool:
        """Do a bounded amount of work; return whether more work is left."""


class Connection(Protocol):
    """The state of a connected queue pair that only packets need (``engine.rc.packets``)."""

    def reload(self) -> None:
        """Apply a context that a command has changed."""

    def dissolve(self) -> None:
        """Break reference cycles; the queue pair does not need the connection any more."""

    def pause(self) -> None:
        """Stop all timers: the queue pair changes state or is destroyed."""

    def stop(self) -> None:
        """Abandon requests in flight without completions.

        SQER or ERR flushes them from the ring.
        """

    def incomplete(self) -> Sequence[ReceiveRequest]:
        """Return receive WQEs that a message has taken and not filled yet; empty without any."""

    @property
    def is_awaiting(self) -> bool:
        """Whether any request is outstanding."""

    @property
    def requester(self) -> ConnectionEnd:
        """Sends requests."""

    @property
    def responder(self) -> ConnectionEnd:
        """Executes and answers requests that have arrived."""


class Steer(Protocol):
    """The receiver of an underlay's datagrams (``emu.device.engine.eth.ipoib.receive``)."""

    def __call__(self, hca: Any, qp: Qp, datagram: Any, origin: Any, /) -> bool:
        """Receive a datagram; return False if it is dropped."""


class Qp(QpContext):
    """A queue pair.

    State, PSNs and retry counts are attributes and are written back into the context for a query.
    """

    __slots__ = (
        "adapter_requests", "begun", "buffer", "connection", "cs_req", "cs_res", "direct_path",
        "error_syndrome", "has_mmo", "held_by", "is_draining", "is_established", "is_ipoib", "mcgs",
        "moving", "pace", "page_faults", "pd", "rcq", "repeated_page_faults", "responder",
        "response_pace", "retries", "rnr_retries", "rq", "scq", "serial", "sq", "srq", "state",
        "steer", "streams", "timer", "umems", "waiting_receive", "xrcd",
    )  # fmt: skip
    kind = "qp"
    BASE_BYTES = 8192
    """Includes the state for packets, and one receive WQE in progress on each side."""

    def __init__(
        self,
        ctx: qpc,
        buffer: PageList,
        sq: SendRing | None = None,
        rq: RecvRing | None = None,
        *,
        pd: Pd | None = None,
        scq: Cq | None = None,
        rcq: Cq | None = None,
        srq: Srq | None = None,
        xrcd: Xrcd | None = None,
        counter: QCounter | None = None,
        umems: tuple[Umem, ...] = (),
    ) -> None:
        """Create a queue pair in RST, with its rings in ``buffer``."""
        super().__init__(ctx, sq)
        self.buffer = buffer
        self.pd = pd
        self.scq = scq
        self.rcq = rcq
        self.srq = srq
        self.xrcd = xrcd
        self.counter = counter
        self.umems = umems
        self.sq = sq
        self.rq = rq
        self.serial = 0
        """Unique among all queue pairs that have or had this number; starts at 1."""
        self.mcgs: dict[bytes, None] = {}
        """Multicast GIDs of the queue pair; an empty set needs three times the memory of a dict."""
        self.is_draining = False
        """Whether a signature error moves the queue pair to SQD after its current requests."""
        self.is_established = False
        """Whether a request has arrived since the transition to RTR."""
        self.timer: Timer | None = None
        """Fires at a retry, or at the next check of the receive queue."""
        self.retries = self.rnr_retries = 0
        self.connection: Connection | None = None
        """State that only packets need; None while the peer is in this process."""
        self.page_faults: dict[Side, PageFault] = {}
        """The page faults that its sides wait for."""
        self.repeated_page_faults: dict[Side, tuple[Page, int]] = {}
        """The page that a side last waited for, and the number of consecutive waits."""
        self.held_by: PageFault | None = None
        """The page fault of a peer in this process that blocks the requests."""
        self.waiting_receive: ReceiveRequest | None = None
        """The receive WQE of a message that waits for a page and will be delivered again."""
        self.moving: Message | None = None
        """A message in several steps, of which some have been done."""
        self.begun: object | None = None
        """Token by which a sender in this process recognizes a started message of several steps.

        The message has the same token, so neither end refers to the other's objects.
        """
        self.responder: Responder | None = None
        """For a DC initiator: the responder at the target of its last message."""
        self.streams = DciStreams.of(ctx) if self.st is QpType.DCI else None
        """The streams of a DC initiator; None without streams."""
        self.cs_req = self.cs_res = 0
        """Maximum bytes of a response, and of a received SEND, that go to the CQE instead of
        memory: 0, 32 or 64 (scatter to CQE)."""
        self.has_mmo = False
        """Whether the queue pair supports memory-to-memory operations."""
        self.pace: Pace | None = None
        """Rate limit of its queue group; None without a group."""
        self.response_pace: Pace | None = None
        """Rate limit of the queue group for READ response data."""
        self.is_ipoib = False
        """Whether the queue pair carries IP over InfiniBand, with checksum offload
        (ulp_stateless_offload_mode)."""
        self.adapter_requests = None if srq is None or srq.tags is None else AdapterRequests()
        """Requests that the adapter itself sends; None without a tag-matching queue."""
        self.steer: Steer | None = None
        """For an underlay: the receiver of its datagrams instead of receive WQEs."""
        self.error_syndrome: bytes | None = None
        """The error that stopped the queue pair, for a query (mlx5_ifc: cqe_error_syndrome)."""
        self.state = QpState.RST
        self.direct_path: DirectPath | None = None
        """The path to a peer of this process, once both have agreed on it."""
        self.decode()

    @property
    def host_bytes(self) -> int:
        ends = 2 if self.st is QpType.DCI else 1  # a DC initiator's responder is in no table
        return self.BASE_BYTES * ends + self.buffer.host_bytes

    def decode(self) -> None:
        """Extract the values, end the agreement on the direct path and reload the connection."""
        super().decode()
        self.direct_path = None
        if self.connection is not None:
            self.connection.reload()

    def encode(self) -> qpc:
        """Write state, PSNs and the send queue's counter into the context; return it."""
        self.ctx.state = self.state
        self.ctx.next_send_psn, self.ctx.next_rcv_psn = self.psn, self.epsn
        if self.sq is not None:
            self.ctx.hw_sq_wqebb_counter = self.sq.ci
        return self.ctx

    def note_error(self, syndrome: bytes) -> None:
        """Record the error that stopped the queue pair, for a query; keep an earlier one."""
        if self.error_syndrome is None:
            self.error_syndrome = syndrome

    def stop_waiting(self) -> None:
        """Cancel timers, retries, rate-limit waits and a partly moved message.

        Detach a DC responder. The connection's timers stop too. The limit on READ responses stays
        in states that still respond.
        """
        self.moving = None
        if self.adapter_requests is not None:
            self.adapter_requests.is_ring_first = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.connection is not None:
            self.connection.pause()
        if self.responder is not None:
            self.responder.leave()
        if self.pace is not None:
            self.pace.stop()
        if self.response_pace is not None and self.state in _SILENT:
            self.response_pace.stop()
        self.retries = self.rnr_retries = 0

    def begun_receives(self) -> list[ReceiveRequest]:
        """Return the receive WQEs that messages have taken and not filled yet, each once.

        Perhaps none.
        """
        incomplete = self.connection.incomplete() if self.connection is not None else ()
        begun = [
            one
            for one in (self.waiting_receive, *incomplete)
            if one is not None and one.wqe is not None
        ]
        return list({id(one): one for one in begun}.values())

    def detach_receives(self) -> None:
        """Detach unfilled receive WQEs from their messages, as the queue pair stops.

        No CQE is written for them, and the WQEs are not put back into the queue.
        """
        for receive in self.begun_receives():
            receive.forget()
        self.waiting_receive = self.begun = None

    def cancel_work(self) -> int:
        """Enter RST, cancel waits and detach unfilled receive WQEs, as the function has stopped.

        Returns COST_OF_ENDING, or 0 for a queue pair without pending work. Packets' state is left
        to ``unlink``.
        """
        self.state = QpState.RST
        if self.held_by is not None:
            self.held_by.release(self)
        if (
            self.timer is None
            and self.connection is None
            and self.responder is None
            and self.moving is None
            and self.pace is None
            and self.response_pace is None
            and self.waiting_receive is None
        ):
            return 0
        self.stop_waiting()
        self.detach_receives()
        return COST_OF_ENDING

    def unlink(self) -> None:
        """Drop the connection (the state for packets), whose waiters have been notified."""
        if self.connection is not None:
            self.connection.dissolve()
            self.connection = None

    def restart(self) -> None:
        """Reset rings, connection, streams and path migration for state RST.

        The driver counts from 0 again. ``state`` and the context are not changed.
        """
        self.unlink()
        self.is_draining = self.is_established = False
        self.has_alternate, self.path_state = False, PmState.MIGRATED
        self.begun = None
        self.repeated_page_faults.clear()
        if self.streams is not None:
            self.streams.failed.clear()
        if self.sq is not None:
            self.sq.restart()
        if self.rq is not None:
            self.rq.restart()

    def about(self) -> dict[str, object]:
        """Return service, state, peer, queues, PSNs and retries.

        ``packets`` is True for a connection whose peer is reached by packets.
        """
        return {
            "service": self.st.name, "state": self.state.name, "remote_qpn": self.remote_qpn,
            "scq": self.scq.handle if self.scq else None,
            "rcq": self.rcq.handle if self.rcq else None,
            "srq": self.srq.handle if self.srq else None,
            "psn": self.psn, "epsn": self.epsn,
            "retries": self.retries, "rnr_retries": self.rnr_retries,
            "packets": self.connection is not None,
        }  # fmt: skip

    def keep_to(self, pace: Pace | None, response_pace: Pace | None) -> None:
        """Replace the rate limits of requests and READ responses, or remove them with None.

        Waits for the former limits end. References to groups are counted by the caller.
        """
        for before in self.paces():
            before.stop()
        self.pace, self.response_pace = pace, response_pace

    def paces(self) -> tuple[Pace, ...]:
        """Return the rate limits of both sides; empty without any."""
        both = (self.pace, self.response_pace)
        return tuple(pace for pace in both if pace is not None)

    def holds(self) -> tuple[Object, ...]:
        groups = tuple(pace.group for pace in self.paces())
        references = (self.pd, self.scq, self.rcq, self.srq, self.xrcd, self.counter)
        return (*(part for part in references if part is not None), *self.umems, *groups)

"""Outstanding requests of one queue pair, their packets, and the PSNs of their progress.

    una    the oldest PSN that is not acknowledged; inside a READ, the expected response
    next   the PSN that is sent next; set back to ``una`` after a loss
    sent   the end of all PSNs sent so far; a response at or beyond it is ignored

An ACK moves ``una``, but not past a READ or an atomic, which need their own responses. A request is
complete when ``una`` has passed it. Local requests are in the window too, without a PSN, so that
completions keep the order of the queue (IBTA 9.7.5, 10.8.5.1).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from emu.device.engine.mr.access import segment_views
from emu.device.engine.mr.access_error import AccessError
from emu.device.engine.qp.send_requests import Failure
from emu.device.engine.wqe.messages import memory_of
from emu.device.objects.memory.rights import LOCAL_READ
from emu.device.objects.memory.views import Views, take_front
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import Wqe
from emu.device.port.packet import Packet, request_packet
from emu.device.rounds.budget import STEPS_AHEAD
from layouts.wire.bth import PSN_HALF, PSN_MASK

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


class WindowRequest:
    """Request in the window."""

    # Most requests keep most of these defaults, which cost no time as class attributes. The
    # requester sets what is read for each of them: CPython finds a class's attribute ten times
    # slower than an object's.
    message: Message | None = None
    """Message without views of guest memory; None for a local request, already done.

    Each packet maps its own range when it is sent: memory and keys may change until then.
    """
    length = 0
    payload: Views = ()
    """The data of a SEND or WRITE of one packet, until sent in the poll that has parsed it."""
    expects_data = False
    """Whether the request needs a response with data (READ, atomic) rather than an ACK."""
    failure: Failure | None = None
    is_read_ahead = True
    """Whether the data of several packets may be mapped at once."""
    flying = 0
    """Packets in flight: sent and not acknowledged."""
    following: WindowRequest | None = None

    # The requester sets these when it fetches the request:
    wqe: Wqe
    first: int
    """First PSN."""
    end: int
    """First PSN after the request."""

    @property
    def op(self) -> MsgOp | None:
        """The operation; None for a local request."""
        return None if self.message is None else self.message.op

    def offset_of(self, qp: Qp, psn: int) -> int:
        """Return the offset in bytes of a packet's data in those of the request."""
        return (psn - self.first & PSN_MASK) * qp.mtu_bytes

    def placing(
        self, hca: Hca, qp: Qp, psn: int, count: int = 1, ahead: list[memoryview] | None = None
    ) -> tuple[Packet, Views, int]:
        """Return a packet of a SEND or a WRITE, its payload and the payload's length.

        For a train of ``count`` packets, return its first packet and the payload of all. The
        payload is taken from ``ahead`` (``data_ahead``) if that is not empty. Raises AccessError
        when the payload cannot be read, TOO_FRAGMENTED also for a train. The packet is not sent.
        """
        message, payload, mtu = self.message, self.payload, qp.mtu_bytes
        assert message is not None
        offset = (psn - self.first & PSN_MASK) * mtu
        size = min(message.length - offset, mtu * count)
        if payload:
            self.payload = ()
        elif ahead:
            payload = take_front(ahead, size)
        else:
            payload = memory_of(hca, qp, self.wqe, message, LOCAL_READ, offset, size)
        is_last = (psn + count) & PSN_MASK == self.end
        packet = request_packet(message, qp.service, qp.remote_qpn, psn, not offset, is_last)
        return packet, payload, size

    def data_ahead(self, hca: Hca, qp: Qp, psn: int, count: int) -> list[memoryview]:
        """Return the data of the next packets, at most ``count``, in reverse order of the views.

        Valid until the end of the poll. Empty after data that could not be read at once or cost
        more than STEPS_AHEAD, for good. Empty also with a plan for faults, which sees the access of
        each packet.
        """
        message, offset = self.message, self.offset_of(qp, psn)
        assert message is not None
        if not self.is_read_ahead or hca.probes.faults is not None:
            return []
        size, limit = qp.mtu_bytes * count, hca.budget.steps + STEPS_AHEAD
        span = offset, min(message.length - offset, size), LOCAL_READ
        try:
            views, left = segment_views(
                hca, qp.pd, qp.handle, message.segments, span, limit, self.wqe.buf
            )
        except AccessError:
            left = size
        if left:
            self.is_read_ahead = False
            return []
        return [*views][::-1]

    def asking_for_data(self, qp: Qp, psn: int) -> Packet:
        """Return a READ of the response ``psn`` and all after it, or an atomic; it is not sent."""
        message = self.message
        assert message is not None
        offset = self.offset_of(qp, psn)
        packet = request_packet(message, qp.service, qp.remote_qpn, psn, True, True)
        packet.va, packet.length = message.va + offset, message.length - offset
        packet.swap_add, packet.compare = message.swap_add, message.compare
        packet.swap_add_mask, packet.compare_mask = message.swap_add_mask, message.compare_mask
        packet.ack_request = True
        return packet


class SendWindow:
    """Requests in the order of the send queue."""

    __slots__ = ("ahead", "current", "expecting_data", "flying", "next", "requests", "sent", "una")

    def __init__(self, psn: int) -> None:
        self.requests: deque[WindowRequest] = deque()
        self.restart(psn)

    def restart(self, psn: int) -> None:
        """Empty the window without completing its requests; ``psn`` is the next to send."""
        self.requests.clear()
        self.ahead = 0
        """WQE blocks of the ring that the requests occupy."""
        self.expecting_data = 0
        """Number of READs and atomics in the window."""
        self.flying = 0
        """Request packets in flight."""
        self.una = self.next = self.sent = psn
        self.current: WindowRequest | None = None
        """Request of ``next`` unless ``next`` is its end; None for the oldest one or a later."""

    def distance(self, psn: int) -> int:
        """Return the distance of ``psn`` ahead of ``una``; at least PSN_HALF when it is behind."""
        return psn - self.una & PSN_MASK

    # -- sending

    def sending(self) -> WindowRequest:
        """Return the request that ``next`` belongs to; the caller has checked that one exists."""
        request = self.current or self.requests[0]
        while request.message is None or request.end == self.next:
            assert request.following is not None
            request = request.following
        self.current = request
        return request

    def newest_placing(self) -> tuple[WindowRequest, int] | None:
        """Return request and PSN of the newest SEND or WRITE packet in flight; None if none."""
        end = self.distance(self.next)
        for request in reversed(self.requests):
            start = self.distance(request.first)
            if request.message is None or request.expects_data or request.failure is not None:
                continue
            if start < end or start >= PSN_HALF:
                last = min(self.distance(request.end), end) - 1
                return request, self.una + last & PSN_MASK
        return None

    def sent_up_to(self, psn: int, request: WindowRequest, flying: int) -> None:
        """Set ``next`` to ``psn`` after a transmission; ``sent`` moves only forward.

        ``flying`` packets of ``request`` are now in flight.
        """
        una, self.next = self.una, psn
        if psn - una & PSN_MASK > self.sent - una & PSN_MASK:
            self.sent = psn
        self.flying += flying - request.flying
        request.flying = flying

    def rewind(self) -> None:
        """Set ``next`` back to ``una``; no packet counts as in flight any more."""
        self.next, self.current = self.una, None
        for request in self.requests:
            self.fly(request, 0)

    def fly(self, request: WindowRequest, flying: int) -> None:
        """Set the number of a request's packets in flight."""
        self.flying += flying - request.flying
        request.flying = flying

    # -- responses

    def reached(self, psn: int) -> int:
        """Return ``psn``, or the PSN of a READ or atomic before it whose response is missing.

        All packets before ``psn`` are acknowledged; ``una`` may move to the returned PSN.
        """
        una, start = self.una, 0
        end = psn - una & PSN_MASK
        for request in self.requests:
            if start >= end:
                break
            if request.expects_data:
                return una + start & PSN_MASK
            start = request.end - una & PSN_MASK
        return psn

"""Responses that a responder has yet to send, in PSN order (IBTA 9.7.5.1).

Responses are queued here and sent in order, so that an ACK never overtakes the data of an earlier
READ. Adjacent ACKs are coalesced into one. The data of a READ are read from memory packet by
packet, when they are sent.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.rc import duplicates, responder
from emu.device.engine.rc.checks import access_violation
from emu.device.engine.rc.remote import data_ahead
from emu.device.engine.rc.validation import packets_of
from emu.device.objects.memory.views import take_front
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.outcome import Nak, Outcome, TooFragmented
from emu.device.objects.queues.page_fault import PageFault
from emu.device.port.packet import OPS, Packet, precedes
from emu.device.port.train import TRAIN_PACKETS
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.sizes import PACKETS_PER_POLL, TRAIN_WORK
from layouts.enums.qp import QpState, QpType
from layouts.wire import bth
from layouts.wire.bth import MSN_MASK, PSN_HALF, PSN_MASK, PacketKind

if TYPE_CHECKING:
    from emu.device.engine.rc.packets.interfaces import InnerConnection
    from emu.device.state.containment import Lifetime

MAX_RESPONSES: Final = 256
"""Number of queued responses from which on further requests of this requester are dropped."""
_UC: Final = QpType.UC
_ACK_UNLIMITED: Final = bth.ACK_UNLIMITED
_SILENT: Final = (QpState.RST, QpState.INIT)
_READ: Final = PacketKind.READ
_ACKNOWLEDGE: Final = PacketKind.ACKNOWLEDGE
_READ_RESPONSE: Final = PacketKind.READ_RESPONSE
_ATOMIC_ACKNOWLEDGE: Final = PacketKind.ATOMIC_ACKNOWLEDGE


class Response:
    """Response: an ACK or NAK, the old value of an atomic, or the data of a READ."""

    value = 0
    is_read_ahead = True
    """Whether the data of several packets of a READ may be mapped at once."""
    is_replay = False
    """Whether this is a duplicate: if the data of a READ cannot be read any more, nothing is
    sent.
    """

    def __init__(
        self, kind: PacketKind, psn: int, msn: int, syndrome: int = _ACK_UNLIMITED
    ) -> None:
        self.kind = kind
        self.psn = psn
        """PSN of the response; for a READ, that of its next response packet."""
        self.end = (psn + 1) & PSN_MASK
        self.msn = msn
        self.syndrome = syndrome
        self.message: Message | None = None
        """The READ whose data are the response; None for any other response."""


class ResponseQueue:
    """Queued responses of one queue pair."""

    __slots__ = ("_ahead", "_connection", "_qp", "is_stuck", "msn", "queue", "reading")

    def __init__(self, connection: InnerConnection) -> None:
        self._connection = connection
        self._qp = connection.qp
        self._ahead: list[memoryview] = []
        """Data behind the packet that this poll has sent last, in reverse order of the views."""
        self.queue: deque[Response] = deque()
        """The responses in their order."""
        self.msn = 0
        """MSN: number of completed messages, modulo 2**24."""
        self.is_stuck = False
        """Whether the data of a READ wait for a page, and all responses after them."""
        self.reading = 0
        """Number of READs, without duplicates, whose data have not all been sent."""

    def reads(self, *, is_replay: bool) -> list[Response]:
        """Return the READs whose data have not all been sent: duplicates, or the others."""
        return [
            response
            for response in self.queue
            if response.kind is _READ and response.is_replay is is_replay
        ]

    def count_message(self) -> None:
        """Count a completed message."""
        self.msn = (self.msn + 1) & MSN_MASK

    def executed(self, packet: Packet) -> None:
        """Advance epsn past an executed SEND or WRITE packet; count a message that is complete.

        Acknowledge the packet if it requests that, never on UC.
        """
        qp, psn = self._qp, packet.psn
        if packet.op.is_last:
            self.msn = (self.msn + 1) & MSN_MASK
        qp.epsn = (psn + 1) & PSN_MASK
        if packet.ack_request and qp.st is not _UC:
            self.acknowledge(psn)

    def acknowledge(self, psn: int) -> None:
        """Queue an ACK of all packets up to and including ``psn``.

        If the newest response is an ACK, move that to ``psn`` instead, but never back. The only
        response is sent when the packets that have arrived together are processed; behind others,
        and where responses are paced, the next polls send it.
        """
        queue = self.queue
        if not queue:
            queue.append(Response(_ACKNOWLEDGE, psn, self.msn))
            hca = self._connection.hca
            if hca.budget.is_gathering and self._qp.response_pace is None:
                hca.budget.at_end(partial(self._respond, hca.lifetime))
            else:
                hca.scheduler.schedule(self._qp)
            return
        last = queue[-1]
        if last.kind is not _ACKNOWLEDGE or last.syndrome != _ACK_UNLIMITED:
            queue.append(Response(_ACKNOWLEDGE, psn, self.msn))
            self._connection.hca.scheduler.schedule(self._qp)
        elif psn - last.psn & PSN_MASK < PSN_HALF:
            last.psn, last.msn = psn, self.msn

    def _respond(self, lifetime: Lifetime) -> None:
        """Send responses without a poll, unless the function has failed or was reset meanwhile.

        Polls send what the round's budget does not allow. Never raises: an exception fails the
        function.
        """
        hca = self._connection.hca
        if lifetime.is_over:
            return
        try:
            if self.poll():
                hca.scheduler.schedule(self._qp)
        except Exception:
            hca.health.fail()

    def nak(self, psn: int, syndrome: int) -> None:
        """Queue a NAK or RNR NAK for the packet ``psn``."""
        self._add(Response(_ACKNOWLEDGE, psn, self.msn, syndrome))

    def value(self, psn: int, old: int, *, is_replay: bool = False) -> None:
        """Queue the old value of an atomic; a replay is queued in the order of its PSN."""
        response = Response(_ATOMIC_ACKNOWLEDGE, psn, self.msn)
        response.value = old
        response.is_replay = is_replay
        self._add(response)

    def data(self, psn: int, message: Message, *, is_replay: bool = False) -> Response:
        """Queue the data of a READ, and return the response; its ``end`` is the PSN after the last.

        The data are read when they are sent. A replay is queued in the order of its PSN.
        """
        response = Response(_READ, psn, self.msn)
        packets = packets_of(message.length, self._qp.mtu_bytes)
        response.message, response.end = message, (psn + packets) & PSN_MASK
        if is_replay:
            response.is_replay = True
        else:
            self.reading += 1
        self._add(response)
        return response

    def _add(self, response: Response) -> None:
        if response.is_replay:
            self.queue.insert(self._place(response), response)
        else:
            self.queue.append(response)
        self._connection.hca.scheduler.schedule(self._qp)

    def _place(self, response: Response) -> int:
        """Return the position of a duplicate's response in the queue, by its PSN.

        The requester accepts data in PSN order only, and would have to request overtaken data
        again. The queue is unchanged.
        """
        for place, other in enumerate(self.queue):
            if precedes(response.end, other.end):
                # The first one may be waiting for a page.
                return max(place, self.is_stuck)
        return len(self.queue)

    # -- sending

    def ask_for_time(self) -> None:
        """Send an RNR NAK for the READ that is stuck, ahead of all responses (IBTA 9.7.5.2.8).

        The peer then requests the rest of the data again, without counting a retry.
        """
        first, qp = self.queue[0], self._qp
        packet = Packet().of(
            OPS[qp.service, _ACKNOWLEDGE, True, True, None], qp.remote_qpn, first.psn
        )
        packet.msn, packet.syndrome = self.msn, bth.KIND_RNR | qp.min_rnr_nak
        self._connection.send(packet)

    def poll(self) -> bool:
        """Send some of the queued responses; return True when more could be sent at once.

        A queue pair in ERR still sends the ACKs of executed requests, and the NAK that stopped it.
        In RST and INIT all responses are dropped. False while a page or the wire blocks sending.
        """
        connection, queue, budget = self._connection, self.queue, PACKETS_PER_POLL
        hca, pace = connection.hca, self._qp.response_pace
        if self._qp.state in _SILENT:
            self._clear()
        try:
            while queue:
                if self.is_stuck or connection.is_waiting:
                    return False
                if budget <= 0 or hca.budget.steps > POLL_BUDGET:
                    return True
                if pace is not None and not pace.may_go_on(hca.clock.now_ns()):
                    return True
                budget -= self._send_next()
            return False
        finally:
            if self._ahead:
                self._ahead = []

    def _send_next(self) -> int:
        """Send a packet of the oldest response, or a train; return its cost in packets.

        ACKs, NAKs and old values leave the queue here; a READ leaves it after its last packet.
        """
        response = self.queue[0]
        if response.message is not None:
            return self._send_data(response, response.message)
        self.queue.popleft()
        qp = self._qp
        op = OPS[qp.service, response.kind, True, True, None]
        packet = Packet().of(op, qp.remote_qpn, response.psn)
        packet.msn, packet.syndrome = response.msn, response.syndrome
        if response.kind is _ATOMIC_ACKNOWLEDGE:
            packet.original = response.value
        self._connection.send(packet)
        return 1

    def _send_data(self, response: Response, message: Message) -> int:
        """Send the next packet, or a train, of a READ's data; return the cost in packets.

        The key is checked again. An absent page sets ``is_stuck``, and nothing is sent. If the key
        is invalid, the queue pair goes to ERR and a NAK replaces all queued responses; a duplicate
        READ is only dropped.
        """
        hca, qp, mtu = self._connection.hca, self._qp, self._qp.mtu_bytes
        left = response.end - response.psn & PSN_MASK
        offset = (packets_of(message.length, mtu) - left) * mtu
        # The first and the last packet are sent alone, and those whose data are mapped already: the
        # peer may take trains since, as a rate limit ends with any packet.
        count = min(TRAIN_PACKETS, left - 1) if offset and not self._ahead else 1
        carry = self._connection.trains() if count > 1 and response.is_read_ahead else None
        size = min(mtu if carry is None else count * mtu, message.length - offset)
        read = duplicates.read_again if response.is_replay else responder.execute_read
        data = (
            take_front(self._ahead, size) if self._ahead else read(hca, qp, message, offset, size)
        )
        if isinstance(data, TooFragmented) and carry is not None:
            response.is_read_ahead = False  # its packets' data are mapped one by one from now on
            return 1
        if data is None or isinstance(data, Outcome):
            self._not_read(response, data)
            return 1
        if left == 1:
            self._drop_read()
        op = OPS[qp.service, _READ_RESPONSE, not offset, left == 1, None]
        packet = Packet().of(op, qp.remote_qpn, response.psn)
        packet.msn, packet.syndrome = response.msn, _ACK_UNLIMITED
        if carry is None:
            response.psn = (response.psn + 1) & PSN_MASK
            if not self._ahead and left > 2:
                self._read_ahead(response, message, offset + size)
            self._connection.send(packet, data, size)
            if qp.response_pace is not None:
                qp.response_pace.sent(size + qp.header_bytes, hca.clock.now_ns())
            return 1
        response.psn = (response.psn + count) & PSN_MASK
        self._connection.send_train(carry, packet, data, count)
        return TRAIN_WORK

    def _read_ahead(self, response: Response, message: Message, offset: int) -> None:
        """Map the data of the packets from ``offset`` on at once, if their access has no effect."""
        if (
            not response.is_read_ahead
            or response.is_replay
            or self._connection.trains() is not None
        ):
            return
        length = TRAIN_PACKETS * self._qp.mtu_bytes
        ahead = data_ahead(self._connection.hca, self._qp, message, offset, length)
        response.is_read_ahead, self._ahead = ahead is not None, ahead or []

    def _not_read(self, response: Response, outcome: Outcome | None) -> None:
        """Wait for the absent page of a READ's data, or drop the READ; None drops a duplicate."""
        if isinstance(outcome, PageFault):
            self.is_stuck = True
            self._connection.responder.wait_for_page(outcome)
            self._connection.responder.start_page_timer()
            return
        if isinstance(outcome, TooFragmented):
            hca, qp, why = self._connection.hca, self._qp, outcome.why
            outcome = None if response.is_replay else access_violation(hca, qp, why, Cause.MEMORY)
        self.stop_data(outcome)

    def stop_data(self, outcome: Outcome | None) -> None:
        """Drop the oldest READ, whose data cannot be read.

        If ``outcome`` is a Nak, send that instead of all queued responses.
        """
        first = self.queue[0]
        if isinstance(outcome, Nak):
            self._clear()
            self.nak(first.psn, bth.KIND_NAK | outcome.code)
        else:
            self._drop_read()

    def _drop_read(self) -> None:
        """Remove the oldest response, a READ."""
        if not self.queue.popleft().is_replay:
            self.reading -= 1

    def _clear(self) -> None:
        """Drop all responses."""
        self.queue.clear()
        self.reading = 0

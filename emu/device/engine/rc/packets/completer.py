"""Responses at a requester: completions, retries, failures (IBTA 9.7.5, 9.7.6).

The kind of a packet, and the syndrome of an ACK packet, select the function that handles it. A
response to no outstanding packet is ignored. The requester retransmits once for each loss, one
packet (``selective.py``) or all from the lost one on. Until the next progress, further signs of the
same loss are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.mr.access_error import ABSENT_PAGE, AccessError
from emu.device.engine.qp import migration, send_requests
from emu.device.engine.qp.send_requests import Failure
from emu.device.engine.rc.packets.ack_timer import AckTimer
from emu.device.engine.rc.packets.selective import SelectiveRepeat
from emu.device.engine.rc.packets.window import SendWindow, WindowRequest
from emu.device.engine.wqe.messages import memory_of
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.memory.views import copy
from emu.device.objects.queues.message import ATOMICS, MsgOp
from emu.device.objects.queues.outcome import SYNDROMES, NakCode
from emu.device.port.packet import Packet, precedes
from emu.device.port.train import Train
from emu.device.rounds.budget import RX_BUDGET
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpState, QpType
from layouts.wire import bth
from layouts.wire.bth import PSN_HALF, PSN_MASK, PacketKind

if TYPE_CHECKING:
    from emu.device.engine.rc.packets.interfaces import InnerConnection

_UC: Final = QpType.UC
_RTS: Final = QpState.RTS
_READ: Final = MsgOp.READ
_ACKNOWLEDGE: Final = PacketKind.ACKNOWLEDGE
_SYNDROME_KIND: Final = bth.SYNDROME_KIND
_ACK: Final = bth.KIND_ACK
_PSN_SEQUENCE_ERROR: Final = NakCode.PSN_SEQUENCE_ERROR


class PacketCompleter:
    """Completes, retries or fails the requests of one queue pair."""

    __slots__ = ("_connection", "_is_retrying", "_probes", "_qp", "_selective", "timer", "window")
    __deletable__ = ("timer",)

    def __init__(self, connection: InnerConnection, window: SendWindow) -> None:
        self._connection = connection
        self._qp = connection.qp
        self.window = window
        self.timer = AckTimer(connection.hca.clock, self)
        self._is_retrying = False
        self._probes = 0
        """Number of probes since the last progress."""
        self._selective = SelectiveRepeat()
        """Used only if the port has selective repeat enabled."""

    def restart(self) -> None:
        """Forget all outstanding requests of a stopped queue pair, without completing them.

        The caller flushes them from the ring.
        """
        self.window.restart(self._qp.psn)
        self._is_retrying = False
        self._probes = 0
        self._selective.forget()

    # -- responses

    def take(self, packet: Packet) -> None:
        """Process a response packet; ignore one to no outstanding PSN.

        Completes, retries or fails requests. An ACK only advances ``una`` behind its PSN.
        """
        window, psn, kind = self.window, packet.psn, packet.op.kind
        una = window.una
        if psn - una & PSN_MASK >= window.sent - una & PSN_MASK:
            return
        if kind is _ACKNOWLEDGE and packet.syndrome & _SYNDROME_KIND == _ACK:
            following = (psn + 1) & PSN_MASK
            if window.expecting_data:
                self.advance(following)
            else:
                self._progress(following)
        else:
            _RESPONSES[kind](self, packet)

    def refused(self, packet: Packet) -> None:
        """Process an RNR NAK or a NAK (table 44), which also acknowledges all packets before it.

        If the response of an earlier READ or atomic is missing, the NAK is ignored and that request
        sent again.
        """
        if self.advance(packet.psn) and self._is_running:
            step = _NAKS.get(packet.syndrome & _SYNDROME_KIND, PacketCompleter.bad_syndrome)
            step(self, packet.syndrome & bth.SYNDROME_VALUE)

    def nak(self, code: int) -> None:
        """Retransmit for a PSN sequence error NAK; fail the oldest request for any other NAK.

        The syndromes are REMOTE_INVAL_REQ_ERR, REMOTE_ACCESS_ERR and REMOTE_OP_ERR; BAD_RESP_ERR
        for an undefined code. The retransmission counts packet_seq_err.
        """
        if code == _PSN_SEQUENCE_ERROR:
            self._send_again("packet_seq_err", may_be_one=True)
        elif code in SYNDROMES:
            reason = NakCode(code)
            self.fail(SYNDROMES[reason], f"peer: {reason.name}")
        else:
            self.bad_syndrome(code)

    def not_ready(self, code: int) -> None:
        """Pause for the time in an RNR NAK, then retransmit from the refused packet on.

        Counts rnr_nak_retry_err and a retry, unless the NAK answers a probe. Without a retry left
        the request fails with RNR_RETRY_EXC_ERR. During a pause further RNR NAKs are ignored.
        """
        qp = self._qp
        if self.timer.is_paused:
            return
        qp.count("rnr_nak_retry_err")
        # The response to a probe is no attempt of the program's.
        is_answer, self._probes = self._probes > 0, max(self._probes - 1, 0)
        if is_answer or send_requests.count_rnr_retry(qp):
            self._rewind()
            self.timer.pause(code)
        else:
            self.fail(CqeSyndrome.RNR_RETRY_EXC_ERR, f"{qp.rnr_retries} retries")

    def bad_syndrome(self, code: int) -> None:
        """Fail the oldest request with BAD_RESP_ERR for an undefined NAK code or AETH syndrome."""
        self.fail(CqeSyndrome.BAD_RESP_ERR, f"undefined AETH value {code}")

    def read_response(self, packet: Packet) -> None:
        """Process a packet of READ data; packets must arrive in PSN order.

        Earlier missing READ data are requested again, and this packet is dropped. Data of another
        size or for another operation fail the request with BAD_RESP_ERR. Beyond the round's budget
        the data are dropped and requested again.
        """
        window, qp, psn = self.window, self._qp, packet.psn
        if (psn != window.una and not self.advance(psn)) or not self._is_running:
            return
        request, mtu, size = window.requests[0], qp.mtu_bytes, len(packet.payload)
        offset = (psn - request.first & PSN_MASK) * mtu
        is_last = (psn + 1) & PSN_MASK == request.end
        if request.op is not _READ:
            self.fail(CqeSyndrome.BAD_RESP_ERR, "a READ response to another operation")
        elif size != min(mtu, request.length - offset) or packet.op.is_last != is_last:
            self.fail(CqeSyndrome.BAD_RESP_ERR, f"READ response of {size} bytes at {offset}")
        elif self._connection.hca.budget.steps > RX_BUDGET:
            self._ask_again()
        else:
            self._take(request, packet.payload, offset)

    def train(self, train: Train) -> None:
        """Process a train of READ data: at once if it is expected and its memory is accessible.

        Otherwise its packets are processed one by one, as by ``take``.
        """
        if not (train.first.psn == self.window.una and self._is_running and self._place(train)):
            for packet in train.packets():
                self.take(packet)

    def _place(self, train: Train) -> bool:
        """Write the data of expected responses; return False to process them one by one.

        False writes nothing: another operation or MTU, not fewer packets than outstanding, no
        budget, or memory that is not accessible at once.
        """
        hca, qp, request = self._connection.hca, self._qp, self.window.requests[0]
        message, una = request.message, self.window.una
        left = min(self.window.distance(request.end), self.window.distance(self.window.sent))
        if request.op is not _READ or message is None or train.mtu != qp.mtu_bytes:
            return False
        if train.count >= left or hca.budget.exhausted(RX_BUDGET):
            return False
        offset = (una - request.first & PSN_MASK) * train.mtu
        span = offset, len(train.payload)
        try:
            target = memory_of(hca, qp, request.wqe, message, LOCAL_WRITE, *span)
        except AccessError:
            return False
        copy(target, (train.payload,))
        self._progress(train.end)
        return True

    def atomic_response(self, packet: Packet) -> None:
        """Write an atomic's old value to the requester's memory, in the driver's byte order.

        A response to another operation, or a value too large, fails the request with BAD_RESP_ERR.
        """
        if not self.advance(packet.psn) or not self._is_running:
            return
        request, old = self.window.requests[0], packet.original
        if request.op not in ATOMICS:
            self.fail(CqeSyndrome.BAD_RESP_ERR, "an atomic response to another operation")
        elif old >> 8 * request.length:
            self.fail(
                CqeSyndrome.BAD_RESP_ERR, f"atomic response {old:#x} exceeds {request.length} bytes"
            )
        else:
            assert request.message is not None
            self._take(request, memoryview(request.message.old_value.pack(old)), 0)

    def _take(self, request: WindowRequest, data: memoryview, offset: int) -> None:
        """Write response data to the request's memory, and advance ``una`` by one packet.

        An absent page suspends the requester, which requests the data again later. If the key is
        invalid by now, the request fails with LOCAL_PROT_ERR.
        """
        hca, qp, message = self._connection.hca, self._qp, request.message
        assert message is not None
        try:
            target = memory_of(hca, qp, request.wqe, message, LOCAL_WRITE, offset, len(data))
        except AccessError as error:
            if error.violation is ABSENT_PAGE:
                self._wait_for_page(request, error, offset)
            else:
                self._fail(request, Failure.of_access(error, request.wqe.opcode))
        else:
            copy(target, (data,))
            self._progress((self.window.una + 1) & PSN_MASK)

    def _ask_again(self) -> None:
        """Send again from ``una`` on in the next poll: the round's budget is used up.

        Responses that follow the dropped one are ignored until the data arrive.
        """
        self._rewind()
        self._is_retrying = True
        self._schedule()

    def _wait_for_page(self, request: WindowRequest, page: AccessError, done: int) -> None:
        """Drop all responses from here, and request them again once the page is present.

        The request fails if it may not wait for the page, or if the driver refuses it.
        """
        self._rewind()
        self._is_retrying = True
        self._connection.requester.stall(request, page, done)

    # -- progress

    def advance(self, psn: int) -> bool:
        """Record that all packets before ``psn`` are acknowledged; return whether that holds.

        False when the response of an earlier READ or atomic is missing: ``una`` moves only up to
        it. The requester then sends that request again (implied NAK, 9.7.5.1.1) and counts
        implied_nak_seq_err.
        """
        window = self.window
        una = window.reached(psn) if window.expecting_data else psn
        if una != window.una:
            self._progress(una)
        if una != psn and self._is_running:
            self._send_again("implied_nak_seq_err")
        return una == psn

    def _progress(self, una: int) -> None:
        """Move ``una`` forward, reset the retry counts, and complete the finished requests.

        After a selective repeat that was in vain, all packets from ``una`` on are sent again. A
        queue pair in RTS that may have more to send is scheduled.
        """
        qp, window = self._qp, self.window
        if window.next != window.sent and precedes(window.next, una):  # sent again needlessly
            window.next, window.current = una, None
        window.una = una
        was_retrying, self._is_retrying = self._is_retrying, False
        self._probes = 0
        qp.retries = qp.rnr_retries = 0
        self.timer.progress(una, is_all=una == qp.psn)
        self.retire()
        if was_retrying and self._selective.was_in_vain(una) and self._is_running:
            self._is_retrying = True
            self._rewind()
        if qp.state is _RTS and (
            window.next != qp.psn or qp.is_draining or not self._connection.requester.is_idle
        ):
            self._schedule()

    def retire(self) -> None:
        """Remove the oldest requests from the window, as far as they are done or have failed.

        Each is completed, or failed, in the order of the ring. A failure stops the queue pair and
        ends this.
        """
        hca, qp, window = self._connection.hca, self._qp, self.window
        requests, una = window.requests, window.una
        while requests and qp.state is _RTS:
            request = requests[0]
            left = request.end - una & PSN_MASK
            if 0 < left < PSN_HALF and request.failure is None:
                if not request.expects_data:
                    window.fly(request, min(left, window.next - una & PSN_MASK))
                return
            requests.popleft()
            window.flying -= request.flying
            window.ahead -= request.wqe.blocks
            if request.expects_data:
                window.expecting_data -= 1
            if request.failure is not None:
                self._fail(request, request.failure)
            else:
                send_requests.complete(hca, qp, request.wqe, request.length)

    @property
    def _is_running(self) -> bool:
        """Whether requests are outstanding and no reported request has stopped the queue pair."""
        return self._qp.state is _RTS and bool(self.window.requests)

    def fail(self, syndrome: CqeSyndrome, why: str) -> None:
        """Fail the oldest request."""
        self._fail(self.window.requests[0], Failure(syndrome, why))

    def _fail(self, request: WindowRequest, why: Failure) -> None:
        send_requests.fail(self._connection.hca, self._qp, request.wqe, why)

    # -- retransmission

    def _send_again(self, counter: str, *, may_be_one: bool = False) -> None:
        """Retransmit from the lost packet ``una`` on, or (``may_be_one``) only that packet.

        Counts ``counter`` and a retry; without a retry left the request fails as in ``_retry``.
        While a retransmission is in progress this does nothing.
        """
        if self._is_retrying:
            return
        self._qp.count(counter)
        self._retry(counter, may_be_one=may_be_one)
        following = (self.window.una + 1) & PSN_MASK
        self.timer.round_trip.went_back(following, self._connection.hca.clock.now_ns())

    def timed_out(self) -> bool:
        """Retry after the ACK timeout; return False when that has stopped the queue pair.

        Counts local_ack_timeout_err and a retry. Without a retry left an ARMED queue pair migrates;
        any other fails with TRANSPORT_RETRY_EXC_ERR. While a page is absent only the timer
        restarts.
        """
        qp = self._qp
        if self._connection.requester.is_stuck:
            self.timer.restart()
            return True
        qp.count("local_ack_timeout_err")
        self._retry("no response")
        return qp.state is _RTS

    def ask(self) -> None:
        """Have the requester probe which packets have arrived: a response is late.

        A probe is no retry, and the timeout continues. Without adaptive_retransmission only the
        time is recorded. A queue pair without retries sends no probes. Counts roce_adp_retrans_to
        and, for a sent probe, roce_adp_retrans.
        """
        qp, window = self._qp, self.window
        hca = self._connection.hca
        self.timer.round_trip.asked(window.sent, hca.clock.now_ns())
        if not hca.link.recovery.adaptive_retransmission:
            return
        qp.count("roce_adp_retrans_to")
        may_ask = qp.state is _RTS and qp.retry_count and window.una != window.next
        if may_ask and self._connection.sender.ask():
            self._probes += 1
            qp.count("roce_adp_retrans")

    def _retry(self, why: str, *, may_be_one: bool = False) -> None:
        """Count a retry and send again from ``una`` on, or (``may_be_one``) perhaps only ``una``.

        Without a retry left an ARMED queue pair migrates and goes on. Any other fails the oldest
        request with TRANSPORT_RETRY_EXC_ERR, which stops the queue pair.
        """
        qp = self._qp
        if not send_requests.count_retry(qp):
            why = f"{why}, {qp.retries} retries"
            if not migration.try_migrate(self._connection.hca, qp, why):
                self.fail(CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, why)
                return
        self._is_retrying = True
        self.timer.restart()
        if not may_be_one or not self._repeat():
            self._rewind()
            self._schedule()

    def _repeat(self) -> bool:
        """Send only the packet ``una`` again; return False when all have to be sent.

        True only with selective repeat, if the peer may have kept the packets after it.
        """
        window, selective, connection = self.window, self._selective, self._connection
        is_sent = (
            connection.repeats_selectively
            and selective.is_worth_trying
            and connection.sender.repeat()
        )
        if is_sent:
            selective.repeated(window.una, window.next)
        return is_sent

    def _rewind(self) -> None:
        """Set ``next`` back to ``una``; the next poll sends from there again."""
        self._selective.forget()
        self.timer.round_trip.resent(self.window.sent)
        self.window.rewind()

    def go_on(self) -> None:
        """Continue after the pause of an RNR NAK."""
        self._schedule()

    def _schedule(self) -> None:
        self._connection.hca.scheduler.schedule(self._qp)


_RESPONSES: Final[Mapping[PacketKind, Callable[[PacketCompleter, Packet], None]]] = {
    PacketKind.ACKNOWLEDGE: PacketCompleter.refused,
    PacketKind.READ_RESPONSE: PacketCompleter.read_response,
    PacketKind.ATOMIC_ACKNOWLEDGE: PacketCompleter.atomic_response,
}

_NAKS: Final[Mapping[int, Callable[[PacketCompleter, int], None]]] = {
    bth.KIND_RNR: PacketCompleter.not_ready,
    bth.KIND_NAK: PacketCompleter.nak,
}

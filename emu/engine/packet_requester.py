"""The requester of connected services, packet by packet (IBTA 9.7.5, 9.9.2).

Requests wait in a window from the packet that opens them until the answer that closes them. Three
PSNs say where the machine stands:

    una    the oldest that is not acknowledged; inside a READ, the response that is expected
    next   the one that is sent next; it goes back to ``una`` when something was lost
    sent   the end of what has ever been sent: an answer beyond it is a ghost

``una`` moves by acknowledgement, over READs and atomics only by their own answers; a request is
complete when ``una`` has passed it. Local requests stand in the window without a PSN, so that
completions keep the order of the queue. UC runs the same machine and acknowledges itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from emu.engine import send_work
from emu.engine.memory import LOCAL_READ, LOCAL_WRITE, AccessError, Views, copy
from emu.engine.message import Message, MsgOp, NakCode, atomic_word
from emu.engine.packet import OPS, SERVICES, Packet
from emu.engine.send_work import LocalError
from emu.engine.sq import Wqe
from emu.engine.timers import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from emu.engine.wqe_ops import gather_piece
from emu.ports import Timer
from layouts import bth
from layouts.bth import PSN_HALF, PSN_MASK, Kind
from layouts.enums import CqeSyndrome, QpState, QpType

if TYPE_CHECKING:
    from emu.engine.link import Link

PACKETS_PER_TURN = 64
WINDOW_PACKETS = 128
"""Request packets that may be under way."""
WINDOW_REQUESTS = 128
ACK_EVERY = 32
"""A long message asks for an acknowledgement after so many packets, so that the window moves."""
TIMEOUT_FACTOR = 4
"""A requester may wait up to four times the time of the code (9.7.6.1.3), and a peer that shares a
processor with us needs it."""

_KINDS = {
    MsgOp.SEND: Kind.SEND,
    MsgOp.WRITE: Kind.WRITE,
    MsgOp.READ: Kind.READ,
    MsgOp.COMPARE_SWAP: Kind.COMPARE_SWAP,
    MsgOp.FETCH_ADD: Kind.FETCH_ADD,
}
_ANSWERED = frozenset({MsgOp.READ, MsgOp.COMPARE_SWAP, MsgOp.FETCH_ADD})
_ALL_BITS = (1 << 64) - 1

# The fence bits of a control segment (PRM "Control segment"; qp.h: MLX5_FENCE_MODE_*). A small
# fence orders local requests, which here have taken effect before the next one is looked at.
_FENCE_SHIFT = 5
_FENCE, _STRONG, _SMALL_AND_FENCE = 2, 3, 4


class Request:
    """A request in the window."""

    __slots__ = ("end", "failure", "first", "flying", "following", "message", "wqe")

    def __init__(self, wqe: Wqe, psn: int) -> None:
        self.wqe = wqe
        self.first = self.end = psn
        """Its first PSN, and the first one after it."""
        self.message: Message | None = None
        """What was asked, without its views of the guest's memory; None: local, and done."""
        self.failure: LocalError | None = None
        self.flying = 0
        """Packets that are on their way: sent and not acknowledged."""
        self.following: Request | None = None

    @property
    def op(self) -> MsgOp | None:
        """What was asked; None for a local request."""
        return self.message.op if self.message is not None else None

    @property
    def length(self) -> int:
        """Bytes of the message."""
        return self.message.length if self.message is not None else 0


class PacketRequester:
    """The sending side of one queue pair."""

    __slots__ = (
        "_ahead", "_answered", "_current", "_deadline", "_flying", "_is_retrying", "_link",
         "_pause", "_timer", "_window", "next", "sent", "una",
    )  # fmt: skip

    def __init__(self, link: Link) -> None:
        self._link = link
        self._window: deque[Request] = deque()
        self._pause: Timer | None = None
        """Runs while the receiver has asked for time."""
        self._timer: Timer | None = None
        self._deadline = 0
        self.forget()

    def forget(self) -> None:
        """Nothing is under way any more: the ring still has what was."""
        self._window.clear()
        self._ahead = 0
        """Blocks of the ring that the window's requests take."""
        self._answered = 0
        """Requests in the window that wait for data: READs and atomics."""
        self._flying = 0
        """Request packets that are on their way."""
        self._current: Request | None = None
        """The request that sends, or one before it; None: look from the window's start."""
        self._is_retrying = False
        self.una = self.next = self.sent = self._link.qp.psn

    def pause(self) -> None:
        """No timer runs; the next turn starts them again."""
        for timer in (self._pause, self._timer):
            if timer is not None:
                timer.cancel()
        self._pause = self._timer = None

    # -- sending

    def turn(self) -> bool:
        """Send a share of what may be sent; True when there is more.

        Raises BadWqeError or DmaError when the ring is broken.
        """
        more = self._send_share()
        self._watch()
        return more

    def _send_share(self) -> bool:
        qp, budget = self._link.qp, PACKETS_PER_TURN
        while budget > 0 and self._pause is None and qp.state is QpState.RTS:
            if not self._window or self.next == qp.psn:
                if not self._fetch():
                    return False
                continue
            sent, may_go_on = self._send(budget)
            if not may_go_on:
                return False
            budget -= sent
        return not budget

    def _fetch(self) -> bool:
        """Take the next request off the ring into the window; False when there is none, or not yet.

        A local request takes effect here.
        """
        link, window = self._link, self._window
        sq, qp = link.qp.sq, link.qp
        assert sq is not None
        waiting = sq.waiting() - self._ahead
        if waiting <= 0 or len(window) >= WINDOW_REQUESTS or (window and window[-1].failure):
            return False
        wqe = sq.fetch(waiting, self._ahead)
        if self._is_fenced(wqe):
            return False
        if not window:
            self.una = self.next = self.sent = qp.psn
            self._current = None
        request = Request(wqe, qp.psn)
        try:
            message = self._parse(wqe)
        except LocalError as error:
            request.failure = error
        else:
            if message is not None and not self._number(request, message):
                return False
        self._ahead += wqe.blocks
        if window:
            window[-1].following = request
        window.append(request)
        self._retire()
        return True

    def _is_fenced(self, wqe: Wqe) -> bool:
        fence = wqe.fm_ce_se >> _FENCE_SHIFT
        if fence == _STRONG:
            return bool(self._window)
        return fence in (_FENCE, _SMALL_AND_FENCE) and self._answered > 0

    def _parse(self, wqe: Wqe) -> Message | None:
        """The message that a WQE asks for, None for a local one. Raises LocalError."""
        work = send_work.parse(self._link.hca, self._link.qp, wqe)
        if work is None:
            return None
        assert isinstance(work, Message)
        masks = work.swap_add_mask & work.compare_mask
        is_masked = work.op is MsgOp.FETCH_ADD and work.compare
        if masks != _ALL_BITS or is_masked:
            raise LocalError(CqeSyndrome.LOCAL_QP_OP_ERR, "a masked atomic has no packet")
        if work.length >= PSN_HALF * self._link.qp.mtu_bytes:
            raise LocalError(CqeSyndrome.LOCAL_LENGTH_ERR, "more packets than half of all PSNs")
        return work

    def _piece(self, request: Request, need: int, offset: int, length: int) -> Views:
        """Our own memory behind a piece of a message. Raises AccessError."""
        assert request.message is not None
        at = request.message.data_at
        hca, qp = self._link.hca, self._link.qp
        return gather_piece(hca, qp, request.wqe, at, need, offset, length)

    def _number(self, request: Request, message: Message) -> bool:
        """Give the request its PSNs; False when it has to wait for earlier ones."""
        qp = self._link.qp
        packets = -(-message.length // qp.mtu_bytes) or 1
        is_answered = message.op in _ANSWERED
        if is_answered and self._answered >= 1 << qp.ctx.log_sra_max:
            return False
        if (qp.psn - self.una & PSN_MASK) + packets >= PSN_HALF:
            return False
        self._answered += is_answered
        # Each packet maps its own piece: memory and keys may change until then.
        message.data = message.reply = ()
        request.message = message
        request.end = qp.psn = (qp.psn + packets) & PSN_MASK
        return True

    def _send(self, budget: int) -> tuple[int, bool]:
        """Send packets of the request at ``next``: how many, and whether there may be more."""
        request = self._sending()
        message, room = request.message, min(budget, WINDOW_PACKETS - self._flying)
        if room <= 0 or message is None or request.failure is not None:
            return 0, False
        if message.op in _ANSWERED:
            return 1, self._ask(request, message)
        sent = 0
        try:
            while sent < room and self.next != request.end:
                sent += 1
                if not self._send_piece(request, message, sent == room):
                    return sent, False
        except AccessError as error:
            # The key that was good for the whole message has gone.
            self._fail_later(request, LocalError(CqeSyndrome.LOCAL_PROT_ERR, str(error)))
            return sent, False
        return sent, True

    def _send_piece(self, request: Request, message: Message, asks: bool) -> bool:
        """The packet ``next`` of a SEND or a WRITE; False when the wire wants a pause.

        Raises AccessError, and nothing has left.
        """
        qp, psn = self._link.qp, self.next
        offset = (psn - request.first & PSN_MASK) * qp.mtu_bytes
        size = min(qp.mtu_bytes, message.length - offset)
        payload = self._piece(request, LOCAL_READ, offset, size)
        self._sent_up_to((psn + 1) & PSN_MASK)
        self._count_flying(request, request.flying + 1)
        is_last = self.next == request.end
        packet = self._packet(message, psn, is_first=not offset, is_last=is_last)
        packet.ack_request = is_last or asks or psn % ACK_EVERY == 0
        may_go_on = self._link.send(packet, payload, size)
        if qp.st is QpType.UC:
            self._advance(self.next)
        return may_go_on

    def _ask(self, request: Request, message: Message) -> bool:
        """A READ, from the response on that is still missing, or an atomic."""
        mtu = self._link.qp.mtu_bytes
        offset = (self.next - request.first & PSN_MASK) * mtu
        packet = self._packet(message, self.next, is_first=True, is_last=True)
        packet.va, packet.length = message.va + offset, message.length - offset
        packet.swap_add, packet.compare = message.swap_add, message.compare
        packet.ack_request = True
        self._sent_up_to(request.end)
        self._count_flying(request, 1)
        return self._link.send(packet)

    def _packet(self, message: Message, psn: int, *, is_first: bool, is_last: bool) -> Packet:
        qp = self._link.qp
        ending = None
        if is_last:
            if message.immediate is not None:
                ending = bth.imm_dt
            elif message.inv_rkey is not None:
                ending = bth.ieth
        op = OPS[SERVICES[qp.st], _KINDS[message.op], is_first, is_last, ending]
        packet = Packet(op, qp.remote_qpn, psn)
        packet.va, packet.rkey, packet.length = message.va, message.rkey, message.length
        packet.immediate, packet.inv_rkey = message.immediate, message.inv_rkey
        packet.srqn = message.srqn
        packet.solicited = message.solicited and is_last
        return packet

    def _sent_up_to(self, psn: int) -> None:
        self.next = psn
        if self._distance(psn) > self._distance(self.sent):
            self.sent = psn

    # -- answers

    def answer(self, packet: Packet) -> None:
        """Take what the responder says. What answers nothing that is under way is ignored."""
        if self._link.qp.state is QpState.RTS and self._distance(packet.psn) < self._distance(
            self.sent
        ):
            _ANSWERS[packet.op.kind](self, packet)

    def acknowledged(self, packet: Packet) -> None:
        """ACK or NAK, as the syndrome says (table 44)."""
        value = packet.syndrome & bth.SYNDROME_VALUE
        kind = packet.syndrome & bth.SYNDROME_KIND
        if kind == bth.KIND_ACK:
            if not self._advance((packet.psn + 1) & PSN_MASK):
                self._go_back("implied_nak_seq_err")
        elif not self._advance(packet.psn):
            self._go_back("implied_nak_seq_err")
        elif self._is_stopped():
            return
        elif kind == bth.KIND_RNR:
            self._wait_for_receiver(value)
        elif kind == bth.KIND_NAK and value == NakCode.PSN_SEQUENCE_ERROR:
            self._go_back("packet_seq_err")
        elif kind == bth.KIND_NAK and value in send_work.SYNDROMES:
            self._fail(send_work.SYNDROMES[NakCode(value)], f"peer: {NakCode(value).name}")
        else:
            self._bad_response(f"syndrome {packet.syndrome:#x}")

    def read_response(self, packet: Packet) -> None:
        """A piece of what a READ has asked for, in the order of the PSNs."""
        if not self._advance(packet.psn):
            self._go_back("implied_nak_seq_err")
            return
        if self._is_stopped():
            return
        request, mtu = self._window[0], self._link.qp.mtu_bytes
        offset = (packet.psn - request.first & PSN_MASK) * mtu
        size = min(mtu, request.length - offset)
        is_last = (packet.psn + 1) & PSN_MASK == request.end
        if request.op is not MsgOp.READ:
            self._bad_response("a READ response to something else")
        elif len(packet.payload) != size or packet.op.is_last != is_last:
            self._bad_response(f"READ response of {len(packet.payload)} bytes, not {size}")
        else:
            self._take(request, packet.payload, offset)

    def atomic_response(self, packet: Packet) -> None:
        """The old value, as a number; the driver has chosen its byte order in the guest."""
        if not self._advance(packet.psn):
            self._go_back("implied_nak_seq_err")
            return
        if self._is_stopped():
            return
        request = self._window[0]
        if request.op in (MsgOp.COMPARE_SWAP, MsgOp.FETCH_ADD):
            old = atomic_word(self._link.hca).pack(packet.original)
            self._take(request, memoryview(old), 0)
        else:
            self._bad_response("an atomic response to something else")

    def _take(self, request: Request, data: memoryview, offset: int) -> None:
        """Put data that has come back where the request wants it."""
        try:
            copy(self._piece(request, LOCAL_WRITE, offset, len(data)), (data,))
        except AccessError as error:
            self._fail(CqeSyndrome.LOCAL_PROT_ERR, str(error))
        else:
            self._progress((self.una + 1) & PSN_MASK)

    def _is_stopped(self) -> bool:
        """Whether completing earlier requests has stopped the queue pair."""
        return self._link.qp.state is not QpState.RTS or not self._window

    # -- the window

    def _distance(self, psn: int) -> int:
        return psn - self.una & PSN_MASK

    def _sending(self) -> Request:
        """The request that ``next`` belongs to; there is one."""
        request = self._current or self._window[0]
        while request.op is None or request.end == self.next:
            assert request.following is not None
            request = request.following
        self._current = request
        return request

    def _count_flying(self, request: Request, packets: int) -> None:
        self._flying += packets - request.flying
        request.flying = packets

    def _advance(self, psn: int) -> bool:
        """Everything before ``psn`` has arrived; False when an answer is missing on the way."""
        target, limit = self._distance(psn), self._distance(psn)
        start = 0
        for request in self._window:
            if start >= target:
                break
            if request.op in _ANSWERED:
                limit = start
                break
            start = self._distance(request.end)
        if limit:
            self._progress((self.una + limit) & PSN_MASK)
        return limit == target

    def _progress(self, una: int) -> None:
        """``una`` moves on: retries start again from none, and what is complete completes."""
        qp = self._link.qp
        if self._distance(una) > self._distance(self.next):
            self.next, self._current = una, None
        self.una = una
        self._is_retrying = False
        qp.retries = qp.rnr_retries = 0
        self._restart_clock()
        self._retire()
        if qp.state is QpState.RTS:
            self._link.hca.schedule(qp)

    def _retire(self) -> None:
        """Complete what ``una`` has passed; a request that has failed here fails in its turn."""
        link, window = self._link, self._window
        while window and link.qp.state is QpState.RTS:
            request = window[0]
            if request.failure is not None:
                self._fail(request.failure.syndrome, str(request.failure))
                return
            if 0 < self._distance(request.end) < PSN_HALF:
                if request.op not in _ANSWERED:
                    last = min(self._distance(request.end), self._distance(self.next))
                    self._count_flying(request, last)
                return
            window.popleft()
            self._count_flying(request, 0)
            self._ahead -= request.wqe.blocks
            self._answered -= request.op in _ANSWERED
            send_work.complete(link.hca, link.qp, request.wqe, request.length)

    def _fail(self, syndrome: CqeSyndrome, why: str) -> None:
        """The oldest request fails."""
        send_work.fail(self._link.hca, self._link.qp, self._window[0].wqe, syndrome, why)

    def _fail_later(self, request: Request, error: LocalError) -> None:
        """A request fails when those before it have completed."""
        request.failure = error
        self._retire()

    def _bad_response(self, why: str) -> None:
        self._fail(CqeSyndrome.BAD_RESP_ERR, why)

    # -- trying again

    def _go_back(self, counter: str) -> None:
        """Something was lost after ``una``: send from there again, once until that helps."""
        qp = self._link.qp
        if self._is_retrying or self._is_stopped():
            return
        qp.count(counter)
        self._retry(counter)

    def _retry(self, why: str) -> None:
        qp = self._link.qp
        if not send_work.may_ask_again(qp):
            self._fail(CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, f"{why}, {qp.retries} retries")
            return
        self._is_retrying = True
        self._rewind()
        self._restart_clock()
        self._link.hca.schedule(qp)

    def _rewind(self) -> None:
        """Send from ``una`` again."""
        self.next, self._current = self.una, None
        for request in self._window:
            self._count_flying(request, 0)

    def _wait_for_receiver(self, code: int) -> None:
        """RNR: nothing is sent for the time that the receiver named (9.7.5.2.8)."""
        link = self._link
        if self._pause is not None:
            return
        link.qp.count("rnr_nak_retry_err")
        if not send_work.may_wait_for_receiver(link.qp):
            self._fail(CqeSyndrome.RNR_RETRY_EXC_ERR, f"{link.qp.rnr_retries} retries")
            return
        self._rewind()
        self._pause = link.hca.clock.call_later(RNR_NAK_NS[code], self._go_on)
        self._restart_clock(RNR_NAK_NS[code])

    def _go_on(self) -> None:
        self._pause = None
        self._link.hca.schedule(self._link.qp)

    def _restart_clock(self, pause_ns: int = 0) -> None:
        """The requester waits for the whole timeout from now on, or from a pause's end."""
        timeout_ns = TIMEOUT_FACTOR * (ACK_TIMEOUT_UNIT_NS << self._link.qp.ack_timeout)
        self._deadline = self._link.hca.clock.now_ns() + pause_ns + timeout_ns

    def _watch(self) -> None:
        """One timer runs while anything is not acknowledged; it looks at the deadline."""
        qp = self._link.qp
        if self._timer is not None or not qp.ack_timeout or self.una == qp.psn:
            return
        if qp.st is not QpType.UC and qp.state is QpState.RTS:
            self._restart_clock()
            self._set_timer()

    def _look(self) -> None:
        """The timer: time is up, or progress has moved the deadline."""
        self._timer = None
        qp, clock = self._link.qp, self._link.hca.clock
        if self.una == qp.psn or qp.state is not QpState.RTS:
            return
        if self._deadline <= clock.now_ns():
            qp.count("local_ack_timeout_err")
            self._retry("no answer")
        if qp.state is QpState.RTS:
            self._set_timer()

    def _set_timer(self) -> None:
        clock = self._link.hca.clock
        self._timer = clock.call_later(self._deadline - clock.now_ns(), self._look)


_ANSWERS: Mapping[Kind, Callable[[PacketRequester, Packet], None]] = {
    Kind.ACKNOWLEDGE: PacketRequester.acknowledged,
    Kind.READ_RESPONSE: PacketRequester.read_response,
    Kind.ATOMIC_ACKNOWLEDGE: PacketRequester.atomic_response,
}

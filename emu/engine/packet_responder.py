"""The responder of connected services, packet by packet (IBTA 9.7.4, 9.7.5, 9.9.3).

A request packet passes PSN, sequence and length here, then the steps of ``emu.engine.responder``.
What is owed to the requester waits in a queue in the order of the PSNs and leaves in turns, so that
an acknowledgement never overtakes the data of a READ before it; acknowledgements that would stand
next to each other become one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from emu.engine import responder
from emu.engine.message import Dropped, Message, MsgOp, Nak, NakCode, RnrNak
from emu.engine.packet import OPS, SERVICES, Packet
from emu.engine.responder import Arrival
from layouts import bth
from layouts.bth import MSN_MASK, PSN_HALF, PSN_MASK, Kind
from layouts.enums import CqeSyndrome, QpState, QpType

if TYPE_CHECKING:
    from emu.engine.link import Link

PACKETS_PER_TURN = 64
MOST_ANSWERS = 256
"""A requester that has not read so many answers is not listened to."""
_SILENT = (QpState.RST, QpState.INIT)

_OPS = {
    Kind.SEND: MsgOp.SEND,
    Kind.WRITE: MsgOp.WRITE,
    Kind.READ: MsgOp.READ,
    Kind.COMPARE_SWAP: MsgOp.COMPARE_SWAP,
    Kind.FETCH_ADD: MsgOp.FETCH_ADD,
}


class Answer:
    """What is owed: an acknowledgement, the value of an atomic, or the data of a READ."""

    __slots__ = ("end", "is_replay", "kind", "message", "msn", "psn", "syndrome", "value")

    def __init__(self, kind: Kind, psn: int, msn: int) -> None:
        self.kind = kind
        self.psn = psn
        """Of a READ, the response that is sent next."""
        self.end = (psn + 1) & PSN_MASK
        self.msn = msn
        self.syndrome = bth.ACK_UNLIMITED
        self.value = 0
        self.message: Message | None = None
        self.is_replay = False
        """Of a READ that has been answered before: if it cannot be again, nothing happens."""


class PacketResponder:
    """The receiving side of one queue pair."""

    __slots__ = (
        "_answers", "_arrival", "_atomics", "_has_naked", "_link", "_message", "_msn", "_offset",
        "_spare",
    )  # fmt: skip

    def __init__(self, link: Link) -> None:
        self._link = link
        self._message: Message | None = None
        """The message whose last packet is still to come."""
        self._arrival = Arrival()
        self._offset = 0
        self._spare: Arrival | None = None
        """The receive request of a UC message that broke off: the next one gets it."""
        self._has_naked = False
        """The requester has been told once that the expected packet is missing."""
        self._answers: deque[Answer] = deque()
        self._atomics: deque[tuple[int, int]] = deque()
        """PSN and old value of the newest atomics, for duplicates."""
        self._msn = 0

    def abandon(self) -> None:
        """The queue pair stops in the middle of a message: its receive request is flushed."""
        link, spare = self._link, self._spare
        responder.fail_receive(link.hca, link.qp, self._arrival, CqeSyndrome.WR_FLUSH_ERR)
        if spare is not None:
            responder.fail_receive(link.hca, link.qp, spare, CqeSyndrome.WR_FLUSH_ERR)
        self._message = self._spare = None

    # -- requests

    def request(self, packet: Packet) -> None:
        """Take a request packet."""
        if len(self._answers) >= MOST_ANSWERS:
            return
        qp = self._link.qp
        ahead = packet.psn - qp.epsn & PSN_MASK
        if qp.st is QpType.UC:
            self._unreliable(packet, ahead)
        elif not ahead:
            self._expected(packet)
        elif ahead < PSN_HALF:
            self._gap()
        else:
            self._duplicate(packet)

    def _expected(self, packet: Packet) -> None:
        try:
            self._check_sequence(packet)
            self._check_length(packet)
            _REQUESTS[packet.op.kind](self, packet)
        except Nak as nak:
            self._refuse(packet.psn, bth.KIND_NAK | nak.code)
        except RnrNak as nak:
            self._has_naked = True
            self._refuse(packet.psn, bth.KIND_RNR | nak.timer)
        else:
            self._has_naked = False

    def _gap(self) -> None:
        """Packets are missing: the first one behind the gap says so (9.7.5.1.1)."""
        qp = self._link.qp
        qp.count("out_of_sequence")
        if not self._has_naked:
            self._has_naked = True
            self._refuse(qp.epsn, bth.KIND_NAK | NakCode.PSN_SEQUENCE_ERROR)

    def _unreliable(self, packet: Packet, ahead: int) -> None:
        """UC: a message that misses a packet is dropped, the next first packet begins anew."""
        op = packet.op
        if op.is_first:
            self._break_off()
        elif ahead or self._message is None or _OPS[op.kind] is not self._message.op:
            self._break_off()
            return
        self._link.qp.epsn = packet.psn
        try:
            self._check_length(packet)
            _REQUESTS[op.kind](self, packet)
        except Dropped:
            self._break_off()

    def _break_off(self) -> None:
        if self._message is not None and self._arrival.wqe is not None:
            self._spare, self._arrival = self._arrival, Arrival()
        self._message = None

    # -- the steps before those of a message (9.7.4.1)

    def _check_sequence(self, packet: Packet) -> None:
        """First after last, and nothing of another kind in between."""
        op, message = packet.op, self._message
        if op.is_first is not (message is None) or (
            message is not None and _OPS[op.kind] is not message.op
        ):
            raise self._invalid(f"{packet!r} does not continue what went before")

    def _check_length(self, packet: Packet) -> None:
        """Full packets but for the last one, and a WRITE as long as it has announced."""
        op, qp, size = packet.op, self._link.qp, len(packet.payload)
        if op.kind not in (Kind.SEND, Kind.WRITE):
            if op.kind is Kind.READ and not self._is_readable(packet.length):
                raise self._invalid(f"READ of {packet.length} bytes")
            return
        if size > qp.mtu_bytes or (not op.is_last and size < qp.mtu_bytes):
            raise self._invalid(f"{packet!r} has {size} bytes")
        if op.is_last and not op.is_first and not size:
            raise self._invalid(f"{packet!r} is empty")
        total = size if op.is_first else self._offset + size
        limit = 1 << qp.log_msg_max
        if op.kind is Kind.WRITE:
            limit = packet.length if op.is_first else self._announced
        if total > limit or (op.is_last and op.kind is Kind.WRITE and total != limit):
            raise self._invalid(f"{packet!r} makes {total} bytes of {limit}")

    def _is_readable(self, length: int) -> bool:
        qp = self._link.qp
        return length <= 1 << qp.log_msg_max and _packets(length, qp.mtu_bytes) < PSN_HALF

    @property
    def _announced(self) -> int:
        return self._message.length if self._message is not None else 0

    def _invalid(self, why: str) -> Exception:
        return responder.invalid_request(self._link.hca, self._link.qp, why)

    # -- execution

    def piece(self, packet: Packet) -> None:
        """A packet of a SEND or a WRITE."""
        hca, qp, op = self._link.hca, self._link.qp, packet.op
        message, arrival = self._message, self._arrival
        if op.is_first or message is None:
            message = _message_of(packet)
            arrival = self._begin(message)
            self._offset = 0
        size = len(packet.payload)
        if op.is_last:
            message.immediate, message.inv_rkey = packet.immediate, packet.inv_rkey
            message.solicited = packet.solicited
            if message.op is MsgOp.SEND:
                message.length = self._offset + size
            if message.immediate is not None and arrival.wqe is None:
                self._adopt(arrival)
            responder.claim(hca, qp, message, arrival)
        # From here on the message has its receive request, whatever happens to it.
        self._message, self._arrival = message, arrival
        responder.place(hca, qp, message, arrival, self._offset, (packet.payload,), size)
        self._offset += size
        if op.is_last:
            responder.finish(hca, qp, message, arrival, packet.slid)
            self._message = None
            self._msn = (self._msn + 1) & MSN_MASK
        qp.epsn = (packet.psn + 1) & PSN_MASK
        if packet.ack_request and qp.st is not QpType.UC:
            self._acknowledge(packet.psn)

    def _begin(self, message: Message) -> Arrival:
        if message.op is MsgOp.SEND and self._spare is not None:
            arrival = Arrival()
            self._adopt(arrival)
            return arrival
        return responder.begin(self._link.hca, self._link.qp, message)

    def _adopt(self, arrival: Arrival) -> None:
        """Give the receive request of a message that broke off to the next one that needs one."""
        spare, self._spare = self._spare, None
        if spare is not None:
            arrival.wqe, arrival.cq, arrival.srqn = spare.wqe, spare.cq, spare.srqn

    def read(self, packet: Packet) -> None:
        """A READ request: its range is checked now, its data leave in turns."""
        hca, qp = self._link.hca, self._link.qp
        message = _message_of(packet)
        responder.read(hca, qp, message)
        if sum(answer.kind is Kind.READ for answer in self._answers) >= 1 << qp.ctx.log_rra_max:
            raise self._invalid("more READs than the queue pair takes")
        self._msn = (self._msn + 1) & MSN_MASK
        answer = self._owe_read(packet.psn, message)
        qp.epsn = answer.end

    def atomic(self, packet: Packet) -> None:
        """An atomic; its answer is kept for duplicates, for as many as may be open at once."""
        hca, qp = self._link.hca, self._link.qp
        old = responder.atomic(hca, qp, _message_of(packet))
        self._msn = (self._msn + 1) & MSN_MASK
        qp.epsn = (packet.psn + 1) & PSN_MASK
        self._atomics.append((packet.psn, old))
        while len(self._atomics) > 1 << qp.ctx.log_rra_max:
            self._atomics.popleft()
        self._owe_value(packet.psn, old)

    # -- duplicates (9.7.5.1.4)

    def _duplicate(self, packet: Packet) -> None:
        """A packet from before the expected one is answered again, and nothing else is done."""
        self._link.qp.count("duplicate_request")
        _DUPLICATES[packet.op.kind](self, packet)

    def duplicate_piece(self, packet: Packet) -> None:
        """It has been placed: only the acknowledgement was lost."""
        self._acknowledge(packet.psn)

    def duplicate_read(self, packet: Packet) -> None:
        """The data are read again, as long as they may be read and the PSNs were a READ's.

        An answer that is still on its way starts again from the response that is asked for.
        """
        hca, qp = self._link.hca, self._link.qp
        message = _message_of(packet)
        packets = _packets(message.length, qp.mtu_bytes)
        if packets > (qp.epsn - packet.psn & PSN_MASK) or not self._is_readable(message.length):
            return
        if responder.read_again(hca, qp, message, 0, message.length) is None:
            return
        end = (packet.psn + packets) & PSN_MASK
        owed = [answer for answer in self._answers if answer.kind is Kind.READ]
        for answer in owed:
            if answer.end == end:
                if packets > (end - answer.psn & PSN_MASK):
                    answer.message, answer.psn = message, packet.psn
                return
        if len(owed) <= 1 << qp.ctx.log_rra_max:
            self._owe_read(packet.psn, message).is_replay = True

    def duplicate_atomic(self, packet: Packet) -> None:
        """The kept answer; an atomic that is too old gets none."""
        for psn, old in self._atomics:
            if psn == packet.psn:
                self._owe_value(psn, old)
                return

    # -- answers

    def _acknowledge(self, psn: int) -> None:
        """Everything up to ``psn`` has arrived."""
        last = self._answers[-1] if self._answers else None
        if (
            last is not None
            and last.kind is Kind.ACKNOWLEDGE
            and last.syndrome == bth.ACK_UNLIMITED
        ):
            if psn - last.psn & PSN_MASK < PSN_HALF:
                last.psn, last.msn = psn, self._msn
            return
        self._owe(Answer(Kind.ACKNOWLEDGE, psn, self._msn))

    def _refuse(self, psn: int, syndrome: int) -> None:
        answer = Answer(Kind.ACKNOWLEDGE, psn, self._msn)
        answer.syndrome = syndrome
        self._owe(answer)

    def _owe_value(self, psn: int, value: int) -> None:
        answer = Answer(Kind.ATOMIC_ACKNOWLEDGE, psn, self._msn)
        answer.value = value
        self._owe(answer)

    def _owe_read(self, psn: int, message: Message) -> Answer:
        answer = Answer(Kind.READ, psn, self._msn)
        answer.message = message
        answer.end = (psn + _packets(message.length, self._link.qp.mtu_bytes)) & PSN_MASK
        self._owe(answer)
        return answer

    def _owe(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._link.hca.schedule(self._link.qp)

    def turn(self) -> bool:
        """Send a share of the answers that wait; True when there is more to send at once."""
        if self._link.qp.state in _SILENT:
            self._answers.clear()
        budget = PACKETS_PER_TURN
        while self._answers and budget:
            budget -= 1
            if not self._send_next():
                return False
        return bool(self._answers)

    def _send_next(self) -> bool:
        """Send one packet of the oldest answer; False when the wire wants a pause."""
        answer = self._answers[0]
        if answer.kind is Kind.READ:
            return self._send_data(answer)
        self._answers.popleft()
        packet = self._packet(answer.kind, answer)
        packet.syndrome, packet.original = answer.syndrome, answer.value
        return self._link.send(packet)

    def _send_data(self, answer: Answer) -> bool:
        """The next response of a READ; the key may have gone since it was asked for."""
        hca, qp, message = self._link.hca, self._link.qp, answer.message
        assert message is not None
        left = answer.end - answer.psn & PSN_MASK
        packets = _packets(message.length, qp.mtu_bytes)
        offset = (packets - left) * qp.mtu_bytes
        size = min(qp.mtu_bytes, message.length - offset)
        try:
            read = responder.read_again if answer.is_replay else responder.read
            data = read(hca, qp, message, offset, size)
        except Nak as nak:
            self._answers.clear()
            self._refuse(answer.psn, bth.KIND_NAK | nak.code)
            return True
        if data is None:
            self._answers.popleft()
            return True
        is_last = left == 1
        if is_last:
            self._answers.popleft()
        packet = self._packet(Kind.READ_RESPONSE, answer, is_first=not offset, is_last=is_last)
        packet.syndrome = bth.ACK_UNLIMITED
        answer.psn = (answer.psn + 1) & PSN_MASK
        return self._link.send(packet, data, size)

    def _packet(
        self, kind: Kind, answer: Answer, *, is_first: bool = True, is_last: bool = True
    ) -> Packet:
        qp = self._link.qp
        op = OPS[SERVICES[qp.st], kind, is_first, is_last, None]
        packet = Packet(op, qp.remote_qpn, answer.psn)
        packet.msn = answer.msn
        return packet


def _packets(length: int, mtu_bytes: int) -> int:
    return -(-length // mtu_bytes) or 1


def _message_of(packet: Packet) -> Message:
    """The message that a packet begins. The length of a SEND is known at its end."""
    kind = packet.op.kind
    message = Message(_OPS[kind], 0)
    message.srqn = packet.srqn
    if kind is not Kind.SEND:
        message.va, message.rkey = packet.va, packet.rkey
    if kind in (Kind.WRITE, Kind.READ):
        message.length = packet.length
    elif kind is not Kind.SEND:
        message.length = responder.ATOMIC_BYTES
        message.swap_add = packet.swap_add
        message.compare = packet.compare if kind is Kind.COMPARE_SWAP else 0
    return message


Step = Callable[[PacketResponder, Packet], None]

_REQUESTS: Mapping[Kind, Step] = {
    Kind.SEND: PacketResponder.piece,
    Kind.WRITE: PacketResponder.piece,
    Kind.READ: PacketResponder.read,
    Kind.COMPARE_SWAP: PacketResponder.atomic,
    Kind.FETCH_ADD: PacketResponder.atomic,
}

_DUPLICATES: Mapping[Kind, Step] = {
    Kind.SEND: PacketResponder.duplicate_piece,
    Kind.WRITE: PacketResponder.duplicate_piece,
    Kind.READ: PacketResponder.duplicate_read,
    Kind.COMPARE_SWAP: PacketResponder.duplicate_atomic,
    Kind.FETCH_ADD: PacketResponder.duplicate_atomic,
}

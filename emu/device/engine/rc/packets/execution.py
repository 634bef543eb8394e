"""Executes request packets that are in order, and duplicates, for a responder.

SEND and WRITE are executed packet by packet. An atomic has one packet. A READ queues its response
packets (IBTA 9.7.5.1). A duplicate gets its response again and has no other effect (9.7.5.1.4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.qp.flush import fail_receive
from emu.device.engine.rc.checks import RxCheck, invalid_request
from emu.device.engine.rc.duplicates import may_read_again
from emu.device.engine.rc.packets.responses import ResponseQueue
from emu.device.engine.rc.receive import check_resource, give_back, track_at_srq
from emu.device.engine.rc.remote import begin_rdma, check_op_valid, needs_wqe_first
from emu.device.engine.rc.responder import (
    begin_segments,
    complete,
    execute,
    execute_atomic,
    refuse_packet,
)
from emu.device.engine.rc.validation import is_possible, op_seq_error, packets_of
from emu.device.engine.wqe.atomic import ATOMIC_BYTES
from emu.device.objects.queues.message import MASKED_ATOMICS, Message, MsgOp
from emu.device.objects.queues.outcome import Outcome, TooFragmented
from emu.device.objects.queues.page_fault import PageFault
from emu.device.objects.queues.receive_request import ReceiveRequest
from emu.device.port.packet import MSG_OPS, Packet, precedes
from emu.device.port.train import Train
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpType
from layouts.wire.bth import PSN_MASK, PacketKind

if TYPE_CHECKING:
    from emu.device.engine.rc.packets.interfaces import InnerConnection

_UC: Final = QpType.UC
_XRC: Final = QpType.XRC
_SEND: Final = MsgOp.SEND
_FETCH_ADD: Final = MsgOp.FETCH_ADD
_SENDS: Final = PacketKind.SEND
_WRITES: Final = PacketKind.WRITE
_READS: Final = PacketKind.READ


class PacketExecution:
    """Incoming messages of one queue pair. The caller has checked order and length."""

    __slots__ = (
        "_after_data", "_atomics", "_hca", "_qp", "_responses", "_spare", "message", "offset",
    )  # fmt: skip

    def __init__(self, connection: InnerConnection, responses: ResponseQueue) -> None:
        self._hca = connection.hca
        self._qp = connection.qp
        self._responses = responses
        self.message: Message | None = None
        """Message whose last packet has not arrived."""
        self.offset = 0
        """Number of its bytes that have arrived."""
        self._spare: ReceiveRequest | None = None
        """Receive WQE of an incomplete message; the next message uses it."""
        self._atomics: deque[tuple[int, int]] = deque()
        """PSN and old value of the newest atomics, for duplicates."""
        self._after_data: int | None = None
        """PSN after the newest READ or atomic, whose responses no ACK replaces."""

    def abandon(self) -> None:
        """Complete the receive WQEs of incomplete messages with WR_FLUSH_ERR; forget the message.

        For a queue pair that has entered ERR.
        """
        hca, qp = self._hca, self._qp
        for receive in self.incomplete():
            fail_receive(hca.cqes, hca.srqs, qp, receive, CqeSyndrome.WR_FLUSH_ERR)
        self.message = self._spare = None

    def incomplete(self) -> list[ReceiveRequest]:
        """Return the receive WQEs that were taken and that no message has filled yet."""
        current = None if self.message is None else self.message.receive
        return [receive for receive in (current, self._spare) if receive is not None]

    def break_off(self) -> None:
        """Forget the incomplete message; keep its receive WQE for the next one.

        On UC a message misses a packet. On reliable services the same message starts again from its
        first packet. Without a message nothing happens.
        """
        if self.message is not None and self.message.has_wqe:
            self._spare = self.message.receive
        self.message = None

    def placing(self, packet: Packet) -> Outcome | None:
        """Execute a packet of a SEND or a WRITE; return None if its data are placed.

        A first packet starts the message and takes the receive WQE of a SEND; the last one
        completes the message. An executed packet advances epsn and, if requested, is acknowledged,
        never on UC. Other outcomes are those of the steps in ``engine.rc.responder``; epsn then
        stays. The offset advances once the data are written, also if the completion is then
        refused.
        """
        hca, qp, op, message = self._hca, self._qp, packet.op, self.message
        refused: Outcome | None = None
        if op.is_first or message is None:
            message = _message_of(packet)
            if qp.adapter_requests is None:
                refused = self._begin(message, op.is_last)
            else:
                message.head, message.has_more_packets = packet.payload, not op.is_last
                refused = self._begin(message, op.is_last)
                message.head = b""
            if refused is None:
                self.offset = 0
        elif message.op is _SEND and not message.has_wqe:
            why = "the message's receive queue was destroyed"
            refused = invalid_request(hca, qp, RxCheck.RESOURCE, why)
        if refused is None and op.is_last:
            message.immediate, message.inv_rkey = packet.immediate, packet.inv_rkey
            message.solicited = packet.solicited
            if message.op is _SEND:
                message.length = self.offset + len(packet.payload)
            if message.immediate is not None and not message.has_wqe:
                refused = self._take_wqe(message)
        if refused is not None:
            return refused
        # From here on the message owns its receive WQE, whatever the outcome.
        self.message, size = message, len(packet.payload)
        refused = execute(hca, qp, message, self.offset, (packet.payload,), size)
        if refused is not None:
            return self._not_placed(packet, message, refused)
        self.offset += size
        if op.is_last:
            if message.receive is not None:
                refused = complete(hca, qp, message, packet.slid)
                if refused is not None:
                    return refused
            self.message = None
        elif op.is_first:
            track_at_srq(hca.srqs, qp, message)
        self._responses.executed(packet)
        return None

    def train(self, train: Train) -> Outcome | None:
        """Execute middle packets of the message, which are in order and of the right length.

        Returns None if all are placed: offset and epsn advance, and a requested ACK is queued,
        never on UC. Any other outcome means that none is placed.
        """
        hca, qp, message = self._hca, self._qp, self.message
        assert message is not None
        size = len(train.payload)
        refused = execute(hca, qp, message, self.offset, (train.payload,), size)
        if refused is not None:
            if isinstance(refused, PageFault):
                track_at_srq(hca.srqs, qp, message)
            return refused
        self.offset += size
        qp.epsn = train.end
        if train.first.ack_request and qp.st is not _UC:
            self._responses.acknowledge(train.end - 1 & PSN_MASK)
        return None

    def takes(self, train: Train) -> bool:
        """Return whether a train continues the message within its length, and can be executed.

        False needs the packets one by one, whose checks find the error if there is one. No state
        changes.
        """
        qp, first, message = self._qp, train.first, self.message
        if message is None or op_seq_error(qp, first, message, 0) or train.mtu != qp.mtu_bytes:
            return False
        after = self.offset + len(train.payload)
        if message.op is _SEND:
            return message.has_wqe and is_possible(qp, after)
        return after < message.length

    def _not_placed(self, packet: Packet, message: Message, refused: Outcome) -> Outcome:
        """Return the response to a packet whose data were not written.

        Memory too scattered for a packet moves the queue pair to ERR. PageFault keeps the
        receive WQE; a first packet then restarts its message. Other outcomes are returned
        unchanged.
        """
        hca, qp = self._hca, self._qp
        if isinstance(refused, TooFragmented):
            return refuse_packet(hca, qp, message, refused)
        if isinstance(refused, PageFault):
            # The packet will be executed again; a first one then restarts the message.
            track_at_srq(hca.srqs, qp, message)
            if packet.op.is_first:
                self.break_off()
        return refused

    def _begin(self, message: Message, is_whole: bool) -> Outcome | None:
        """Return None if a message may start with its first packet, else the refusal.

        A SEND takes its receive WQE, and so does a WRITE that needs it first. The key of a WRITE is
        checked for its whole range. ``is_whole``: the message has one packet, whose views are kept.
        """
        hca, qp = self._hca, self._qp
        if message.op is _SEND:
            return self._take_wqe(message)
        if not is_whole:
            return begin_segments(hca, qp, message)
        if message.immediate is not None and needs_wqe_first(qp, message):
            refused = check_op_valid(hca, qp, message) or self._take_wqe(message)
            if refused is not None:
                return refused
        target = begin_rdma(hca, qp, message)
        if not isinstance(target, Outcome):
            message.target = target
            return None
        if isinstance(target, PageFault) and message.has_wqe:
            track_at_srq(hca.srqs, qp, message)
            self._spare = message.receive
        return (
            None if isinstance(target, TooFragmented) else target
        )  # the packet's own range is checked next

    def _take_wqe(self, message: Message) -> Outcome | None:
        """Take a receive WQE: that of an incomplete message if there is one, else the next.

        On XRC that of an incomplete message for another SRQ returns to its queue. Returns None, or
        the outcome of ``check_resource``.
        """
        qp, spare = self._qp, self._spare
        if spare is not None:
            self._spare = None
            if spare.wqe is not None and (qp.st is not _XRC or spare.srqn == message.srqn):
                message.receive = spare
                return None
            give_back(self._hca.srqs, spare)
        return check_resource(self._hca, qp, message)

    def read(self, packet: Packet) -> Outcome | None:
        """Execute a READ request: check its range now; later polls send its data.

        Returns None and advances epsn over all response packets. The refusals are those of
        ``begin_segments``. More READs at once than log_rra_max are an invalid request: Nak and ERR.
        """
        hca, qp = self._hca, self._qp
        message = _message_of(packet)
        refused = begin_segments(hca, qp, message)
        if refused is not None:
            return refused
        # Duplicates do not count: their requester may have all its data by now.
        if self._responses.reading >= qp.max_dest_rd_atomic:
            return invalid_request(hca, qp, RxCheck.RESOURCE, "more READs than log_rra_max allows")
        self._responses.count_message()
        qp.epsn = self._after_data = self._responses.data(packet.psn, message).end
        return None

    def atomic(self, packet: Packet) -> Outcome | None:
        """Execute an atomic and queue its old value; return None, or the refusal.

        The refusals are those of ``execute_atomic``. 2**log_rra_max results are kept for
        duplicates.
        """
        qp = self._qp
        old = execute_atomic(self._hca, qp, _message_of(packet))
        if isinstance(old, Outcome):
            return old
        self._responses.count_message()
        qp.epsn = self._after_data = (packet.psn + 1) & PSN_MASK
        self._atomics.append((packet.psn, old))
        while len(self._atomics) > qp.max_dest_rd_atomic:
            self._atomics.popleft()
        self._responses.value(packet.psn, old)
        return None

    # -- duplicates (9.7.5.1.4)

    def duplicate_placing(self, packet: Packet) -> None:
        """Acknowledge all executed packets for a duplicate whose data are placed already.

        The requester then need not send all of them again. The ACK does not cover a READ or an
        atomic after the packet, whose response may be lost, too.
        """
        psn = packet.psn
        if self._after_data is None or not precedes(psn, self._after_data):
            psn = self._qp.epsn - 1 & PSN_MASK
        self._responses.acknowledge(psn)

    def duplicate_read(self, packet: Packet) -> None:
        """Queue a READ's data again, if the key still allows it and the PSNs precede ``qp.epsn``.

        If the READ's response is still being sent, it restarts at the requested packet. Otherwise,
        and beyond 2**log_rra_max duplicates, the request is dropped without a response.
        """
        qp = self._qp
        message = _message_of(packet)
        packets = packets_of(message.length, qp.mtu_bytes)
        if packets > (qp.epsn - packet.psn & PSN_MASK) or not is_possible(qp, message.length):
            return
        if not may_read_again(self._hca, qp, message):
            return
        replays = self._responses.reads(is_replay=True)
        for response in replays + self._responses.reads(is_replay=False):
            if response.end == (packet.psn + packets) & PSN_MASK:
                if packets > (response.end - response.psn & PSN_MASK):
                    response.message, response.psn = message, packet.psn
                return
        if len(replays) < qp.max_dest_rd_atomic:
            self._responses.data(packet.psn, message, is_replay=True)

    def duplicate_atomic(self, packet: Packet) -> None:
        """Queue the kept result of an atomic again; memory is not changed.

        An atomic older than the kept ones gets no response.
        """
        for psn, old in reversed(self._atomics):
            if psn == packet.psn:
                self._responses.value(psn, old, is_replay=True)
                return


_Executor = Callable[[PacketExecution, Packet], Outcome | None]


def _message_of(packet: Packet) -> Message:
    """Return the message that a packet starts; ``length`` is 0 for a SEND until its last packet."""
    kind = packet.op.kind
    message = Message()
    message.op = MSG_OPS[kind]
    if packet.srqn:
        message.srqn = packet.srqn
    if kind is _SENDS:
        return message
    message.va, message.rkey = packet.va, packet.rkey
    if kind is _WRITES or kind is _READS:
        message.length, message.immediate = packet.length, packet.immediate
    else:
        _take_operands(message, packet)
    return message


def _take_operands(message: Message, packet: Packet) -> None:
    """Copy the operands of an atomic. A plain FETCH_ADD has one; its other fields are ignored."""
    message.swap_add, message.length = packet.swap_add, ATOMIC_BYTES
    if message.op in MASKED_ATOMICS:
        message.length = packet.length
        message.swap_add_mask, message.compare_mask = packet.swap_add_mask, packet.compare_mask
    if message.op is not _FETCH_ADD:
        message.compare = packet.compare


EXECUTE: Final[Mapping[PacketKind, _Executor]] = {
    PacketKind.SEND: PacketExecution.placing,
    PacketKind.WRITE: PacketExecution.placing,
    PacketKind.READ: PacketExecution.read,
    PacketKind.COMPARE_SWAP: PacketExecution.atomic,
    PacketKind.FETCH_ADD: PacketExecution.atomic,
    PacketKind.MASKED_COMPARE_SWAP: PacketExecution.atomic,
    PacketKind.MASKED_FETCH_ADD: PacketExecution.atomic,
}
"""Functions that execute a request packet, by its kind."""

REPEAT: Final[Mapping[PacketKind, Callable[[PacketExecution, Packet], None]]] = {
    PacketKind.SEND: PacketExecution.duplicate_placing,
    PacketKind.WRITE: PacketExecution.duplicate_placing,
    PacketKind.READ: PacketExecution.duplicate_read,
    PacketKind.COMPARE_SWAP: PacketExecution.duplicate_atomic,
    PacketKind.FETCH_ADD: PacketExecution.duplicate_atomic,
    PacketKind.MASKED_COMPARE_SWAP: PacketExecution.duplicate_atomic,
    PacketKind.MASKED_FETCH_ADD: PacketExecution.duplicate_atomic,
}

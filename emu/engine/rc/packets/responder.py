"""The responder of connected services, packet by packet (IBTA 9.7.4, 9.7.5, 9.9.3).

A request packet passes the steps listed in ``emu.engine.rc.responder``. One before the expected PSN
is a duplicate: its response is sent again and nothing else is done. The first packet after a gap
gets a NAK, further ones are dropped. UC has no responses: a message that misses a packet is
dropped, and the next first packet starts a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from emu.device.held import HeldPackets
from emu.engine.mr.rights import STEPS_PER_ROUND, InPieces
from emu.engine.qp import lifecycle as qp_life
from emu.engine.rc.duplicates import may_read_again
from emu.engine.rc.fatal_nak import invalid_request
from emu.engine.rc.nak import Dropped, Nak, NakCode, RnrNak
from emu.engine.rc.packets.responses import ResponseQueue
from emu.engine.rc.receive import check_resource, keep
from emu.engine.rc.responder import (
    ATOMIC_BYTES,
    begin_pieces,
    begin_rdma,
    complete,
    execute,
    execute_atomic,
    refuse_packet,
)
from emu.engine.rc.validation import (
    EXPECTED,
    GAP,
    MSG_OPS,
    check_length,
    check_op_seq,
    check_psn,
    follows,
    is_possible,
    packets_of,
)
from emu.objects.message import Message, MsgOp
from emu.objects.page_fault import Held, PageFault, Side
from emu.objects.receive_queue import TakenWqe
from emu.port.packet import Packet
from layouts import bth
from layouts.bth import MSN_MASK, PSN_MASK, Kind
from layouts.enums import CqeSyndrome, QpType

if TYPE_CHECKING:
    from emu.engine.rc.packets.interfaces import InnerConnection
    from emu.ports import Timer

_UC = QpType.UC

PACKETS_PER_TURN = 64
"""How many packets that were held for a page are taken in one turn."""

PATIENCE_NS = 100_000_000
"""After waiting this long for a page, the responder sends an RNR NAK."""
UC_PATIENCE_NS = 1_000_000_000
"""The same for UC, which has no RNR NAK: the held packets are lost."""

_RESPONDER = Side.RESPONDER
_SEND = MsgOp.SEND
_SENDS = Kind.SEND
_WRITES = Kind.WRITE
_READS = Kind.READ


class PacketResponder:
    """The receiving side of one queue pair."""

    __slots__ = (
        "_atomics",
        "_connection",
        "_has_missed",
        "_has_naked",
        "_held",
        "_message",
        "_offset",
        "_patience",
        "_spare",
        "responses",
    )  # fmt: skip

    def __init__(self, connection: InnerConnection) -> None:
        self._connection = connection
        self.responses = ResponseQueue(connection)
        self._message: Message | None = None
        """The message whose last packet is still to come."""
        self._offset = 0
        self._spare: TakenWqe | None = None
        """The receive WQE of an incomplete UC message; the next message uses it."""
        self._has_naked = False
        """A NAK for the expected PSN has been sent, and no second one is."""
        self._atomics: deque[tuple[int, int]] = deque()
        """PSN and old value of the newest atomics, for duplicates."""
        self._held = HeldPackets(connection.hca.held_room)
        """Packets that came while the responder waits for a page, or after enough work for a round;
        and those that came after them."""
        self._has_missed = False
        """Packets were dropped because there was no room to hold them."""
        self._patience: Timer | None = None

    def abandon(self) -> None:
        """The queue pair stops: flush the receive WQE of an incomplete message."""
        hca, qp = self._connection.hca, self._connection.qp
        for taken in self.unfinished():
            qp_life.fail_receive(hca, qp, taken, CqeSyndrome.WR_FLUSH_ERR)
        self._message = self._spare = None

    def unfinished(self) -> list[TakenWqe]:
        """Receive WQEs that were taken and that no message has filled yet."""
        current = None if self._message is None else self._message.taken
        return [taken for taken in (current, self._spare) if taken is not None]

    def request(self, packet: Packet) -> None:
        """Take a request packet, or hold it when this round has done enough."""
        hca = self._connection.hca
        if self.responses.is_full:
            return
        if self._held.packets or self._is_waiting or hca.steps > STEPS_PER_ROUND:
            self._hold(packet)
            if not self._is_waiting:
                hca.schedule(self._connection.qp)
            return
        try:
            self._take(packet)
        except Held as held:
            self._hold(packet)
            self.wait_for(held.page_fault)

    def turn(self) -> bool:
        """Take a share of the held packets and send responses; True when there is more."""
        budget, hca = PACKETS_PER_TURN, self._connection.hca
        while self._held and budget and not self._is_waiting and not self.responses.is_full:
            if hca.steps > STEPS_PER_ROUND:
                break
            budget -= 1
            packet = self._held.pop()
            try:
                self._take(packet)
            except Held as held:
                self._held.put_back(packet)
                self.wait_for(held.page_fault)
            else:
                self._ask_for_missed()
        more = self.responses.turn()
        return more or (bool(self._held) and not self._is_waiting)

    def _ask_for_missed(self) -> None:
        """All held packets are taken: NAK if packets after them were dropped for lack of room."""
        if self._has_missed and not self._held:
            self._has_missed = False
            if self._connection.qp.st is not _UC:
                self._connection.qp.count("out_of_sequence")
                self._nak_gap()

    @property
    def _is_waiting(self) -> bool:
        """Whether the next packet needs an absent page."""
        faults = self._connection.qp.page_faults
        return bool(faults) and _RESPONDER in faults

    def drop_held(self) -> None:
        """The queue pair takes no packets any more."""
        self._held.clear()

    def _take(self, packet: Packet) -> None:
        """Take one packet. Raises Held when a page is absent: take it again later."""
        qp = self._connection.qp
        if qp.st is _UC:
            self._unreliable(packet)
            return
        found = check_psn(qp, packet.psn)
        if found is EXPECTED:
            self._expected(packet)
        elif found is GAP:
            self._nak_gap()
        else:
            _DUPLICATES[packet.op.kind](self, packet)

    def not_ready(self, packet: Packet, timer: int) -> None:
        """Send an RNR NAK for a request, as if there were no receive request."""
        if packet.psn == self._connection.qp.epsn:
            self._has_naked = True
            self.responses.nak(packet.psn, bth.KIND_RNR | timer)

    # -- waiting for a page

    def _hold(self, packet: Packet) -> None:
        """Hold a packet until the page is present; without room for it, send an RNR NAK."""
        qp = self._connection.qp
        if not self._held.add(packet):
            self._has_missed = True
            if not self._held and not self._has_naked:
                self._ask_for_time()
            return
        if self._patience is None and self._is_waiting:
            patience = UC_PATIENCE_NS if qp.st is _UC else PATIENCE_NS
            self._patience = self._connection.hca.clock.call_later(patience, self._lose_patience)

    def wait_for(self, fault: PageFault) -> None:
        """Wait for a page; usually it comes before the requester times out."""
        fault.go_on = self._page_is_there

    def _lose_patience(self) -> None:
        """The page takes too long: drop the held packets and send an RNR NAK."""
        self._patience = None
        if self._is_waiting:
            self._held.clear()
            self._ask_for_time()

    def _ask_for_time(self) -> None:
        """Send an RNR NAK (IBTA 9.7.5.2.8)."""
        qp = self._connection.qp
        if qp.st is not _UC:
            self._has_naked = True
            self.responses.nak(qp.epsn, bth.KIND_RNR | qp.min_rnr_nak)

    def _page_is_there(self, outcome: Exception | None) -> None:
        """The wait for a page is over; the held packets are then taken in turns.

        ``outcome`` is None if the page is present, otherwise what the requester gets instead.
        """
        qp = self._connection.qp
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self.responses.is_stuck:
            self.responses.is_stuck = False
            if outcome is not None:
                self.responses.stop_data(outcome)
        elif isinstance(outcome, Nak):
            self.responses.nak(qp.epsn, bth.KIND_NAK | outcome.code)
        elif outcome is not None and self._held:
            self._held.pop()
            self._break_off()
        self._connection.hca.schedule(qp)

    # -- PSN

    def _expected(self, packet: Packet) -> None:
        hca, qp = self._connection.hca, self._connection.qp
        try:
            check_op_seq(hca, qp, packet, self._message)
            check_length(hca, qp, packet, self._message, self._offset)
            _REQUESTS[packet.op.kind](self, packet)
        except Nak as nak:
            self.responses.nak(packet.psn, bth.KIND_NAK | nak.code)
        except RnrNak as nak:
            self._has_naked = True
            self.responses.nak(packet.psn, bth.KIND_RNR | nak.timer)
        else:
            self._has_naked = False

    def _nak_gap(self) -> None:
        """Packets are missing: send one PSN sequence error NAK for the gap (9.7.5.1.1)."""
        if not self._has_naked:
            self._has_naked = True
            self.responses.nak(self._connection.qp.epsn, bth.KIND_NAK | NakCode.PSN_SEQUENCE_ERROR)

    def _unreliable(self, packet: Packet) -> None:
        """UC: a first packet begins a message, whatever came before; others continue it (9.9.2)."""
        hca, qp = self._connection.hca, self._connection.qp
        if packet.op.is_first:
            self._break_off()
        elif packet.psn != qp.epsn or self._message is None or not follows(packet, self._message):
            self._break_off()
            return
        try:
            check_length(hca, qp, packet, self._message, self._offset)
            _REQUESTS[packet.op.kind](self, packet)
        except Dropped:
            self._break_off()

    def _break_off(self) -> None:
        """Drop an incomplete UC message; keep its receive WQE for the next one."""
        if self._message is not None and self._message.has_wqe:
            self._spare = self._message.taken
        self._message = None

    # -- execution

    def piece(self, packet: Packet) -> None:
        """Execute a packet of a SEND or a WRITE."""
        hca, qp, op, message = self._connection.hca, self._connection.qp, packet.op, self._message
        if op.is_first or message is None:
            message = _message_of(packet)
            self._begin(message, op.is_last)
            self._offset = 0
        elif message.op is _SEND and not message.has_wqe:
            raise invalid_request(hca, qp, "the message's receive queue was destroyed")
        size = len(packet.payload)
        if op.is_last:
            self._finish_reading(message, packet, self._offset + size)
            if message.immediate is not None and not message.has_wqe:
                self._take_wqe(message)
        # From here on the message owns its receive WQE, whatever happens next.
        self._message = message
        try:
            execute(hca, qp, message, self._offset, (packet.payload,), size)
        except Held:
            # The packet will be taken again; if it is a first one it then starts the message anew.
            keep(hca, qp, message)
            if op.is_first:
                self._break_off()
            raise
        except InPieces as why:
            refuse_packet(hca, qp, message, why)
        self._offset += size
        if op.is_last:
            complete(hca, qp, message, packet.slid)
            self._message = None
            self._count_message()
        elif op.is_first:
            keep(hca, qp, message)
        qp.epsn = (packet.psn + 1) & PSN_MASK
        if packet.ack_request and qp.st is not _UC:
            self.responses.acknowledge(packet.psn)

    def _begin(self, message: Message, is_whole: bool) -> None:
        if message.op is _SEND:
            self._take_wqe(message)
        elif is_whole:
            message.target = begin_rdma(self._connection.hca, self._connection.qp, message)
        else:
            begin_pieces(self._connection.hca, self._connection.qp, message)

    def _take_wqe(self, message: Message) -> None:
        """Take a receive WQE: that of an incomplete message if there is one, else the next."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.wqe is not None:
            message.taken = spare
        else:
            check_resource(self._connection.hca, self._connection.qp, message)

    @staticmethod
    def _finish_reading(message: Message, packet: Packet, length: int) -> None:
        """Take over the fields that are in a message's last packet."""
        message.immediate, message.inv_rkey = packet.immediate, packet.inv_rkey
        message.solicited = packet.solicited
        if message.op is _SEND:
            message.length = length

    def read(self, packet: Packet) -> None:
        """Execute a READ request: check its range now, send its data in turns."""
        hca, qp = self._connection.hca, self._connection.qp
        message = _message_of(packet)
        begin_pieces(hca, qp, message)
        if len(self.responses.reads) >= 1 << qp.ctx.log_rra_max:
            raise invalid_request(hca, qp, "more READs than the queue pair takes")
        self._count_message()
        qp.epsn = self.responses.data(packet.psn, message).end

    def atomic(self, packet: Packet) -> None:
        """Execute an atomic; keep as many results for duplicates as may be outstanding at once."""
        qp = self._connection.qp
        old = execute_atomic(self._connection.hca, qp, _message_of(packet))
        self._count_message()
        qp.epsn = (packet.psn + 1) & PSN_MASK
        self._atomics.append((packet.psn, old))
        while len(self._atomics) > 1 << qp.ctx.log_rra_max:
            self._atomics.popleft()
        self.responses.value(packet.psn, old)

    def _count_message(self) -> None:
        self.responses.msn = (self.responses.msn + 1) & MSN_MASK

    # -- duplicates (9.7.5.1.4)

    def duplicate_piece(self, packet: Packet) -> None:
        """The data are placed already and only the ACK was lost: acknowledge again."""
        self.responses.acknowledge(packet.psn)

    def duplicate_read(self, packet: Packet) -> None:
        """Read the data again, if the key still allows it and the PSNs lie before the expected one.

        If the READ's response is still being sent, it restarts at the requested packet.
        """
        qp = self._connection.qp
        message = _message_of(packet)
        packets = packets_of(message.length, qp.mtu_bytes)
        if packets > (qp.epsn - packet.psn & PSN_MASK) or not is_possible(qp, message.length):
            return
        if not may_read_again(self._connection.hca, qp, message):
            return
        reads = self.responses.reads
        for response in reads:
            if response.end == (packet.psn + packets) & PSN_MASK:
                if packets > (response.end - response.psn & PSN_MASK):
                    response.message, response.psn = message, packet.psn
                return
        if len(reads) <= 1 << qp.ctx.log_rra_max:
            self.responses.data(packet.psn, message, is_replay=True)

    def duplicate_atomic(self, packet: Packet) -> None:
        """Send the kept result again; an atomic that is too old gets no response."""
        for psn, old in self._atomics:
            if psn == packet.psn:
                self.responses.value(psn, old)
                return


def _message_of(packet: Packet) -> Message:
    """The message that a packet starts. The length of a SEND is known only at its end."""
    kind = packet.op.kind
    message = Message(MSG_OPS[kind], 0)
    message.srqn = packet.srqn
    if kind is not _SENDS:
        message.va, message.rkey = packet.va, packet.rkey
    if kind in (_WRITES, _READS):
        message.length = packet.length
    elif kind is not _SENDS:
        message.length = ATOMIC_BYTES
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

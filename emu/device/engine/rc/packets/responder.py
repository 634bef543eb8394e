"""Responder of connected services: packets to execute, hold or NAK (IBTA 9.7.4, 9.9.3).

A request packet passes the steps listed in ``emu.device.engine.rc.responder``; ``execution.py``
executes it. A packet before the expected PSN is a duplicate: only its response is sent again. One
after a gap gets a NAK, or is kept (``gap.py``). UC has no responses: a message that misses a packet
is dropped, and the next first packet starts a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from emu.device.engine.rc.checks import RxCheck, invalid_request, trace_refusal
from emu.device.engine.rc.packets.execution import EXECUTE, REPEAT, PacketExecution
from emu.device.engine.rc.packets.gap import PsnGap
from emu.device.engine.rc.packets.responses import MAX_RESPONSES, ResponseQueue
from emu.device.engine.rc.remote import begin_rdma
from emu.device.engine.rc.responder import refuse_packet
from emu.device.engine.rc.validation import GAP, PACKET_CHECKS, check_psn
from emu.device.objects.memory.views import copy
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.outcome import Dropped, Nak, Outcome, RnrNak, TooFragmented
from emu.device.objects.queues.page_fault import PageFault, Side
from emu.device.port.packet import OPS, Packet
from emu.device.port.train import Train
from emu.device.rounds.budget import TIMER_BUDGET
from emu.device.rounds.sizes import PACKETS_PER_POLL
from emu.device.state.held import HeldPackets
from layouts.enums.qp import QpType
from layouts.wire import bth
from layouts.wire.bth import PSN_MASK, PacketKind, Service

if TYPE_CHECKING:
    from emu.device.engine.rc.packets.interfaces import InnerConnection
    from emu.device.ports import Timer

_UC: Final = QpType.UC


PAGE_TIMEOUT_NS: Final = 100_000_000
"""Time to wait for a page, in nanoseconds, before the responder sends an RNR NAK."""
UC_PAGE_TIMEOUT_NS: Final = 1_000_000_000
"""Time to wait for a page on UC, which has no RNR NAK: the held packets are then lost."""

_RESPONDER: Final = Side.RESPONDER
_WRITE: Final = MsgOp.WRITE
_WHOLE_WRITES: Final = frozenset(
    OPS[service, PacketKind.WRITE, True, True, None].code
    for service in (Service.RC, Service.UC, Service.XRC)
)
"""Opcodes of WRITEs of one packet, without immediate data."""
_ONE_BY_ONE: Final = TooFragmented(1, "packets of the train are processed one by one")


class PacketResponder:
    """Receiving side of one queue pair."""

    __slots__ = (
        "_connection", "_gap", "_has_kept", "_has_missed", "_hca", "_held", "_page_timer", "_qp",
        "execution", "responses",
    )  # fmt: skip

    def __init__(self, connection: InnerConnection) -> None:
        self._connection = connection
        self._hca = connection.hca
        self._qp = connection.qp
        self.responses = ResponseQueue(connection)
        self.execution = PacketExecution(connection, self.responses)
        self._gap = PsnGap(connection, self.responses)
        self._has_kept = False
        """Whether kept packets are now among the held ones."""
        self._held = HeldPackets(connection.hca.held_capacity)
        """Packets held while the responder waits for a page or the next round, and those after
        them.
        """
        self._has_missed = False
        """Whether packets were dropped for lack of space to hold them."""
        self._page_timer: Timer | None = None

    def request(self, packet: Packet) -> None:
        """Execute a request packet, or hold it for later polls.

        Packets are held when the round's budget is used up, a page is absent, or others are held.
        Without space to hold one, the packet is dropped, and an RNR NAK or sequence error NAK
        follows. While too many responses are queued, packets are dropped uncounted.
        """
        hca, qp = self._hca, self._qp
        if len(self.responses.queue) >= MAX_RESPONSES:
            return
        if (
            self._held.packets
            or hca.budget.steps > TIMER_BUDGET
            or (qp.page_faults and _RESPONDER in qp.page_faults)
        ):
            self._hold(packet)
            if not self._is_waiting:
                hca.scheduler.schedule(qp)
            return
        held = self._take(packet)
        if held is not None:
            self._hold(packet)
            self.wait_for_page(held)

    def train(self, train: Train) -> None:
        """Execute a train: at once if it is expected and no packet is held before it.

        Otherwise, or when a page is absent, its packets are processed one by one. A refused train
        sends one NAK.
        """
        outcome: Outcome | None = _ONE_BY_ONE
        is_next = train.first.psn == self._qp.epsn
        if is_next and self._is_free and self.execution.takes(train):
            outcome = self.execution.train(train)
        if outcome is None:
            self._gap.end()
        elif isinstance(outcome, (Nak, Dropped)):
            _ANSWERS[type(outcome)](self, train.first, outcome)
        else:
            if isinstance(outcome, PageFault):
                self.wait_for_page(outcome)
            for packet in train.packets():
                self.request(packet)

    @property
    def _is_free(self) -> bool:
        """Whether a request would be executed now, without waiting behind others."""
        return not (
            self._held.packets
            or self._gap.kept
            or self._is_waiting
            or len(self.responses.queue) >= MAX_RESPONSES
            or self._hca.budget.steps > TIMER_BUDGET
        )

    def poll(self) -> bool:
        """Execute some of the held packets and send responses; return True when there are more.

        False also while the responder waits for a page or the wire: their end schedules the queue
        pair.
        """
        if not self._held.packets:
            return self.responses.poll() if self.responses.queue else False
        self._execute_held()
        more = self.responses.poll()
        return more or (bool(self._held.packets) and not self._is_waiting)

    def _execute_held(self) -> None:
        """Execute some of the held packets, as far as pages and the budget allow it."""
        budget, hca = PACKETS_PER_POLL, self._hca
        while self._held.packets and budget and not self._is_waiting:
            if len(self.responses.queue) >= MAX_RESPONSES or hca.budget.exhausted(TIMER_BUDGET):
                break
            budget -= 1
            packet = self._held.pop()
            held = self._take(packet)
            if held is None:
                self._catch_up()
            else:
                self._held.put_back(packet)
                self.wait_for_page(held)
                self.start_page_timer()

    def _catch_up(self) -> None:
        """Acknowledge the kept packets, and NAK the next gap, once no packet is held.

        Packets dropped for lack of space are a gap, too, and count out_of_sequence. While packets
        are held this does nothing.
        """
        if self._held.packets:
            return
        if self._has_kept:
            self._has_kept = False
            self.responses.acknowledge(self._qp.epsn - 1 & PSN_MASK)
            if self._gap.kept:
                self._gap.nak()
        if self._has_missed:
            self._has_missed = False
            if self._qp.st is not _UC:
                self._qp.count("out_of_sequence")
                self._gap.nak()

    @property
    def _is_waiting(self) -> bool:
        """Whether the next packet needs an absent page."""
        faults = self._qp.page_faults
        return bool(faults) and _RESPONDER in faults

    def drop_held(self) -> None:
        """Drop the held and early packets of a queue pair that receives no packets any more."""
        self._held.clear()
        self._gap.drop()
        self._has_kept = False
        self._stop_page_timer()

    def _stop_page_timer(self) -> None:
        if self._page_timer is not None:
            self._page_timer.cancel()
            self._page_timer = None

    def _take(self, packet: Packet) -> PageFault | None:
        """Process one packet; return a PageFault if a page is absent and it must be repeated.

        None in all other cases: the packet is executed, refused by a NAK, or dropped. A packet
        after a gap sends a NAK, and is kept with selective repeat. A duplicate gets its response
        again.
        """
        qp = self._qp
        if qp.st is _UC:
            return self._unreliable(packet)
        if packet.psn != qp.epsn:
            self._unexpected(packet)
            return None
        outcome = self._execute(packet)
        gap = self._gap
        if outcome is None:
            if gap.has_naked:
                gap.end()
        elif (held := _ANSWERS[type(outcome)](self, packet, outcome)) is not None:
            return held
        if gap.kept:
            self._take_kept()
        return None

    def _execute(self, packet: Packet) -> Outcome | None:
        """Run the checks of a packet that is next, and execute it; return None, or the refusal."""
        qp, execution, size = self._qp, self.execution, len(packet.payload)
        message, before = execution.message, execution.offset
        if (  # a short WRITE, as most requests: no objection to its order and length
            packet.op.code in _WHOLE_WRITES
            and message is None
            and packet.length == size <= qp.mtu_bytes
        ):
            return self._whole_write(packet, size)
        for check, objection in PACKET_CHECKS:
            why = objection(qp, packet, message, before)
            if why:
                return invalid_request(self._hca, qp, check, why)
        return EXECUTE[packet.op.kind](execution, packet)

    def _whole_write(self, packet: Packet, size: int) -> Outcome | None:
        """Execute a WRITE of one packet of ``size`` bytes, without immediate data.

        No message has to be kept for further packets. The outcomes are those of
        ``PacketExecution.placing``.
        """
        hca, qp = self._hca, self._qp
        message = Message()
        message.op, message.va, message.rkey = _WRITE, packet.va, packet.rkey
        message.length, message.srqn = size, packet.srqn
        target = begin_rdma(hca, qp, message)
        if isinstance(target, Outcome):
            if isinstance(target, TooFragmented):
                return refuse_packet(hca, qp, message, target)
            return target
        if len(target) == 1:  # most: without a call
            target[0][:size] = packet.payload
        else:
            copy(target, (packet.payload,))
        self.responses.executed(packet)
        return None

    def _unexpected(self, packet: Packet) -> None:
        """Process a packet of a reliable service whose PSN is not the expected one."""
        if check_psn(self._qp, packet.psn) is GAP:
            self._gap.nak()
            if self._connection.repeats_selectively:
                self._gap.keep(packet)
        else:
            REPEAT[packet.op.kind](self.execution, packet)

    def not_ready(self, packet: Packet, timer: int) -> None:
        """Send an RNR NAK with ``timer`` for a request, as if no receive request were posted.

        Ignored unless the packet has the expected PSN. Only fault plans call this.
        """
        if packet.psn == self._qp.epsn:
            self._gap.nak_not_ready(timer)

    # -- waiting for a page

    def _hold(self, packet: Packet) -> None:
        """Hold a packet for a later poll; while a page is absent, start the time limit for it.

        Without space for it the packet is dropped. An RNR NAK is sent only if no packet is held and
        no NAK was sent.
        """
        if not self._held.add(packet):
            self._has_missed = True
            if not self._held.packets and not self._gap.has_naked:
                self._ask_for_time()
        else:
            self.start_page_timer()

    def start_page_timer(self) -> None:
        """Start the time limit for the page, if the responder waits for one and no limit runs.

        The limit is PAGE_TIMEOUT_NS, on UC UC_PAGE_TIMEOUT_NS.
        """
        if self._page_timer is None and self._is_waiting:
            timeout = UC_PAGE_TIMEOUT_NS if self._qp.st is _UC else PAGE_TIMEOUT_NS
            self._page_timer = self._hca.clock.call_later(timeout, self._page_timed_out)

    def wait_for_page(self, fault: PageFault) -> None:
        """Continue by ``_page_present`` when the page fault ends."""
        fault.wait(self._page_present)

    def _page_timed_out(self) -> None:
        """Drop the held packets and send an RNR NAK: the page takes too long.

        The page fault stays open. On UC no NAK is sent. If the wait has ended, nothing happens.
        """
        self._page_timer = None
        if not self._is_waiting:
            return
        self._held.clear()
        if not self.responses.is_stuck:
            self._ask_for_time()
        elif not self._connection.is_waiting:
            self.responses.ask_for_time()

    def _ask_for_time(self) -> None:
        """Send an RNR NAK with the queue pair's min_rnr_nak, on UC none (IBTA 9.7.5.2.8)."""
        qp = self._qp
        if qp.st is not _UC:
            self._gap.nak_not_ready(qp.min_rnr_nak)

    def _page_present(self, outcome: Outcome | None) -> None:
        """Process the held packets in the next polls, after the wait for a page.

        ``outcome`` is None if the page is present or the wait was cancelled. Otherwise it refuses
        the oldest held packet or READ: a Nak is sent, and Dropped drops it.
        """
        qp = self._qp
        self._stop_page_timer()
        if self.responses.is_stuck:
            self.responses.is_stuck = False
            if outcome is not None:
                self.responses.stop_data(outcome)
        elif isinstance(outcome, Nak):
            self.responses.nak(qp.epsn, bth.KIND_NAK | outcome.code)
        elif outcome is not None and self._held.packets:
            self._held.pop()
            self.execution.break_off()
        self._hca.scheduler.schedule(qp)

    # -- PSN

    def answer_nak(self, packet: Packet, nak: Nak) -> None:
        """Send the NAK."""
        self.responses.nak(packet.psn, bth.KIND_NAK | nak.code)

    def answer_rnr(self, _packet: Packet, nak: RnrNak) -> None:
        """Send the RNR NAK."""
        self._gap.nak_not_ready(nak.timer)

    def answer_nothing(self, _packet: Packet, _: Dropped) -> None:
        """Forget the current message without a response."""
        self.execution.break_off()

    def _take_kept(self) -> None:
        """Hold the kept packets that are now in order, for the next polls.

        If there are none, NAK the next gap.
        """
        for packet in self._gap.filled():
            self._has_kept = True
            self._has_missed |= not self._held.add(packet)
        if self._has_kept:
            self._hca.scheduler.schedule(self._qp)
        else:
            self._gap.nak_next()

    def _unreliable(self, packet: Packet) -> PageFault | None:
        """Process a UC packet: a first packet starts a message, others continue it (9.9.2).

        A packet that does not continue the current message ends that message: both are dropped.
        Returns a PageFault if the packet must be repeated, else None.
        """
        hca, qp, execution = self._hca, self._qp, self.execution
        if packet.op.is_first:
            execution.break_off()
        elif packet.psn != qp.epsn:
            why = f"{packet!r} does not continue a message"
            trace_refusal(hca.probes, qp, RxCheck.PSN, why)
            execution.break_off()
            return None
        outcome = self._execute(packet)
        return None if outcome is None else _ANSWERS[type(outcome)](self, packet, outcome)


def _held(_responder: PacketResponder, _packet: Packet, held: PageFault) -> PageFault:
    return held


_ANSWERS: Final[
    Mapping[type[Outcome], Callable[[PacketResponder, Packet, Any], PageFault | None]]
] = {
    Nak: PacketResponder.answer_nak,
    RnrNak: PacketResponder.answer_rnr,
    Dropped: PacketResponder.answer_nothing,
    PageFault: _held,
}
"""Response to a request packet that was not executed; the caller handles PageFault."""

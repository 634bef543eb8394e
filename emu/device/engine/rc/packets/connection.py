"""Packet connection of a queue pair: its packets are sent and received here.

The connection, created when the first packet is sent or received, holds the state that only packets
need: the route, and the state machines of requester and responder. A queue pair whose peer is in
this process never has one.

A received packet that fails a check of its headers (``emu.device.engine.rc.headers``) is dropped,
and counted by the check. Bad packets raise no exception here. A packet with the headers of the last
one that has passed needs no second check, unless context, state or port have changed.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.qp.events import establish
from emu.device.engine.qp.transitions import RECEIVING
from emu.device.engine.rc.headers import WRONG_PKEY, objection
from emu.device.engine.rc.packets.completer import PacketCompleter
from emu.device.engine.rc.packets.migration import refusal_on_migration
from emu.device.engine.rc.packets.rate import FlowRate, answer_mark, obeys, slowed_down
from emu.device.engine.rc.packets.requester import PacketRequester
from emu.device.engine.rc.packets.responder import PacketResponder
from emu.device.engine.rc.packets.sender import PacketSender
from emu.device.engine.rc.packets.tally import PacketTally
from emu.device.engine.rc.packets.window import SendWindow
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.receive_request import ReceiveRequest
from emu.device.port.link import Route
from emu.device.port.packet import Packet
from emu.device.port.train import Train
from emu.device.rounds.costs import LOG_BYTES_PER_STEP, LOG_INTERVALS_PER_STEP, STEPS_PER_PACKET
from emu.device.state.cancellable_call import CancellableCall
from emu.device.state.containment import contain
from emu.device.state.points import FaultPoint
from layouts.enums.qp import PmState, QpState
from layouts.wire.bth import ICRC_BYTES, PacketKind
from layouts.wire.packet_ops import RESPONSES

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.ports import CarryTrain, Timer
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

PKT_RX_POINT: Final[FaultPoint[[Packet, int], None]] = FaultPoint("pkt.rx")
_RTR: Final = QpState.RTR
_RTS: Final = QpState.RTS
_CNP: Final = PacketKind.CNP
_MIGRATED: Final = PmState.MIGRATED


class PacketConnection:
    """Packet connection of one queue pair to its peer in another process."""

    __slots__ = (
        "_route", "_sent", "_wakeup", "accepted", "completer", "hca", "is_waiting", "next_cnp_ns",
        "qp", "rate", "received", "repeats_selectively", "requester", "responder", "sender",
    )  # fmt: skip
    __deletable__ = ("completer", "requester", "responder", "sender")

    def __init__(self, hca: Hca, qp: Qp) -> None:
        self.hca = hca
        self.qp = qp
        self.repeats_selectively = hca.link.recovery.selective_repeat
        self.completer = PacketCompleter(self, SendWindow(qp.psn))
        self.sender = PacketSender(self, self.completer)
        self.requester = PacketRequester(self, self.completer, self.sender)
        self.responder = PacketResponder(self)
        self._route: Route | None = None
        link = hca.link
        self._sent = PacketTally(link, link.count_sent)
        self.received = PacketTally(link, link.count_received)
        self.accepted: object = None
        """Headers of the last packet that has passed their checks; None after a change of the
        context.
        """
        self.is_waiting = False
        """Whether sending waits until the wire has space or the rate allows it."""
        self._wakeup: Timer | None = None
        """Callback that ends the wait."""
        self.rate: FlowRate | None = None
        """Rate limit after congestion notifications; None without a limit."""
        self.next_cnp_ns = 0
        """Time from which on the peer may be notified of congestion again."""

    def send(self, packet: Packet, payload: Views = (), length: int = 0) -> None:
        """Count a packet as sent and put it on the wire, where it may be lost.

        While the link is down or the source GID is empty, the packet is dropped, not counted. A
        full wire or the rate limit sets ``is_waiting``: the caller sends no further packet until
        the queue pair is scheduled again.
        """
        hca, qp, route = self.hca, self.qp, self._route
        link = hca.link
        if route is None:
            route = self._find_route()
        if qp.path_state is not _MIGRATED:
            packet.is_migrated = False
        frame = route.frame(packet, payload, length)
        if frame and link.is_up:
            octets, sent = len(frame), self._sent
            if octets in sent.lengths:
                sent.lengths[octets] += 1
            else:
                sent.count_first(octets)
            if not hca.wire.transmit(hca, frame, qp.handle) and not self.is_waiting:
                self._await_space(route.address)
        if self.rate is not None:
            self._keep_to(self.rate, len(frame))

    def trains(self) -> CarryTrain | None:
        """Return the function that sends trains to the peer; None to send each packet alone.

        None with a rate limit, with an alternate path, and where the wire needs single packets.
        """
        qp = self.qp
        if qp.pace is not None or qp.response_pace is not None:
            return None
        if self.rate is not None or qp.path_state is not _MIGRATED:
            return None
        route = self._find_route() if self._route is None else self._route
        return self.hca.wire.train_to(self.hca, route.address, qp.mtu_bytes)

    def _find_route(self) -> Route:
        """Return the route of the queue pair's path; count what is sent with the path's marks."""
        qp = self.qp
        self._route = route = self.hca.link.route(qp.ctx.primary_address_path)
        self._sent.marks = qp.marks
        return route

    def send_train(self, carry: CarryTrain, packet: Packet, payload: Views, count: int) -> None:
        """Put ``count`` middle packets of a message on the wire, of which ``packet`` is the first.

        ``payload`` has the data of all. ``carry`` is the result of :meth:`trains`. Counts, losses
        and ``is_waiting`` are those of :meth:`send`.
        """
        hca, mtu, route = self.hca, self.qp.mtu_bytes, self._route
        assert route is not None
        front = route.frame(packet, (), mtu)
        link = hca.link
        if front and link.is_up:
            link.count_sent(count, count * (len(front) + mtu), self.qp.marks)
            if (
                not carry((front[:-ICRC_BYTES], *payload, front[-ICRC_BYTES:]))
                and not self.is_waiting
            ):
                self._await_space(route.address)

    def _await_space(self, address: int) -> None:
        """Set ``is_waiting`` until the wire has space; then schedule the queue pair."""
        self.is_waiting = True
        self._wakeup = wakeup = CancellableCall(partial(contain, self.hca.lifetime, self._go_on))
        self.hca.wire.when_ready(address, wakeup)

    def _keep_to(self, rate: FlowRate, octets: int) -> None:
        """Charge a sent packet to the rate; set ``is_waiting`` until the rate allows the next.

        A limit that is no longer needed is removed.
        """
        clock = self.hca.clock
        now, before = clock.now_ns(), rate.made_up
        is_over = rate.is_over(now)
        self.hca.budget.charge(rate.made_up - before >> LOG_INTERVALS_PER_STEP)
        if is_over:
            self.limit(None)
        elif (pause := rate.sent(octets, now)) and not self.is_waiting:
            self.is_waiting = True
            self._wakeup = clock.call_later(pause, self._go_on)

    def limit(self, rate: FlowRate | None) -> None:
        """Set the rate limit, or remove it by None; update the port's count of limited flows."""
        congestion = self.hca.link.congestion
        if congestion is not None:
            congestion.flows += (rate is not None) - (self.rate is not None)
        self.rate = rate

    def _go_on(self) -> None:
        self.is_waiting = False
        self._wakeup = None
        self.hca.scheduler.schedule(self.qp)

    def reload(self) -> None:
        """Forget the route and the checked headers after a command has changed the context."""
        self._route = self.accepted = None
        self._sent.count()

    def dissolve(self) -> None:
        """Break the reference cycles of a connection that its queue pair drops.

        The wait for the wire is cancelled and the rate limit removed. The connection is unusable
        afterwards.
        """
        self._cancel_wait()
        self.limit(None)
        del self.completer.timer
        del self.completer, self.sender, self.requester, self.responder

    def pause(self) -> None:
        """Stop the ACK timers when the queue pair changes its state or is destroyed.

        Outside the receiving states the responder's held packets are dropped, too. Outstanding
        requests stay.
        """
        self.completer.timer.stop()
        if self.qp.state not in RECEIVING:
            self.responder.drop_held()

    def _cancel_wait(self) -> None:
        """End the wait for wire or rate without scheduling the queue pair."""
        self.is_waiting = False
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    @property
    def is_awaiting(self) -> bool:
        """Whether requests are outstanding."""
        return bool(self.completer.window.requests)

    def incomplete(self) -> list[ReceiveRequest]:
        """Return the receive WQEs that no message has filled yet."""
        return self.responder.execution.incomplete()

    def stop(self) -> None:
        """Forget outstanding requests in SQER or ERR; the caller then flushes them from the ring.

        In ERR this also completes the receive WQE of a started message with WR_FLUSH_ERR.
        """
        self.completer.restart()
        if self.qp.state is QpState.ERR:
            self.responder.execution.abandon()


def connection_of(hca: Hca, qp: Qp) -> PacketConnection:
    """Return the queue pair's packet connection, created if it has none.

    From the creation on, the queue pair's requests are packets until its reset.
    """
    connection = qp.connection
    if connection is None:
        connection = qp.connection = PacketConnection(hca, qp)
    assert isinstance(connection, PacketConnection)  # only this function creates one
    return connection


def receive(hca: Hca, packet: Packet, length: int) -> None:
    """Receive a packet of a connected service, ``length`` bytes in all, for this function's LID.

    Never raises: an exception fails the function. A fault plan may change or drop the packet.
    """
    try:
        faults = hca.probes.faults
        if faults is None or not faults.wants_packets:
            take(hca, packet, length)
        else:
            faults.show(PKT_RX_POINT, packet, length)
    except Exception:
        hca.health.fail()


def receive_train(hca: Hca, train: Train, length: int) -> None:
    """Receive a train of packets with ``length`` bytes each: as a whole, or one by one.

    Never raises: an exception fails the function.
    """
    try:
        is_watched = hca.probes.faults is not None and hca.probes.faults.wants_packets
        if not is_watched and _take_train(hca, train, length):
            return
    except Exception:
        hca.health.fail()
        return
    for packet in train.packets():
        receive(hca, packet, length)


def _take_train(hca: Hca, train: Train, length: int) -> bool:
    """Process a train with valid headers and without a path change; return whether it was.

    False, without an effect, for any other train, for a marked one, and without a packet
    connection: its packets are then taken one by one. A response outside RTS is counted as received
    and dropped.
    """
    first = train.first
    qp = hca.qps.get(first.qpn)
    if not hca.link.is_up or qp is None or qp.path_state is not _MIGRATED or first.is_marked:
        return False
    connection = qp.connection
    if objection(hca.link, qp, first) or not isinstance(connection, PacketConnection):
        return False
    hca.budget.charge(STEPS_PER_PACKET + (len(train.payload) >> LOG_BYTES_PER_STEP))
    hca.link.count_received(train.count, train.count * length)
    if first.op.kind in RESPONSES:
        if qp.state is _RTS:
            connection.completer.train(train)
    else:
        if qp.state is _RTR:
            establish(hca.events, qp)
        connection.responder.train(train)
    return True


def take(hca: Hca, packet: Packet, length: int) -> None:
    """Count a packet and pass it to its queue pair, without planned faults.

    Ignored uncounted while the link is down. A refused packet is counted in ``link.dropped`` by its
    reason; a wrong P_Key also as a violation. CNPs and ECN marks act on the rate. The first packet
    creates the connection. A response outside RTS is dropped.
    """
    link = hca.link
    if not link.is_up:
        return
    hca.budget.charge(STEPS_PER_PACKET)
    qp = hca.qps.by_handle.get(packet.qpn)
    headers = packet.op.service, packet.slid, packet.pkey, packet.grh, link.attributes
    if (
        qp is None
        or not isinstance(connection := qp.connection, PacketConnection)
        or connection.accepted != headers
        or qp.state not in RECEIVING
        or qp.path_state is not _MIGRATED
    ):
        link.count_received(1, length)
        connection = _examine(hca, qp, packet, headers)
        if connection is None:
            return
        qp = connection.qp
    elif length in (lengths := connection.received.lengths):
        lengths[length] += 1
    else:
        connection.received.count_first(length)
    if packet.op.kind in RESPONSES:
        if qp.state is _RTS:
            connection.completer.take(packet)
    else:
        if qp.state is _RTR:
            establish(hca.events, qp)
        connection.responder.request(packet)


def _examine(
    hca: Hca, qp: Qp | None, packet: Packet, headers: tuple[object, ...]
) -> PacketConnection | None:
    """Return the connection of a packet whose headers pass their checks; else drop it.

    A dropped packet is counted by the reason, and a wrong P_Key or an ignored CNP as such. CNPs and
    ECN marks act on the rate; a CNP ends here. The packets with equal ``headers`` that follow are
    not examined, unless each of them has to be.
    """
    link = hca.link
    why = objection(link, qp, packet)
    if qp is not None and qp.path_state is not _MIGRATED:
        why = refusal_on_migration(hca, qp, packet, why)
    congestion = link.congestion
    if why or qp is None:
        log.debug("%r dropped: %s", packet, why)
        link.dropped[why] += 1
        if why is WRONG_PKEY:
            link.violated_pkey()
        if congestion is not None and packet.op.kind is _CNP:
            congestion.counts["rp_cnp_ignored"] += 1
        return None
    if congestion is not None:
        if packet.op.kind is _CNP:
            if obeys(qp, congestion):
                connection, now = connection_of(hca, qp), hca.clock.now_ns()
                connection.limit(slowed_down(hca.budget, congestion, connection.rate, now))
            return None
        if packet.is_marked:
            connection = connection_of(hca, qp)
            next_cnp_ns = connection.next_cnp_ns
            connection.next_cnp_ns = answer_mark(hca, qp, congestion, next_cnp_ns)
            return connection
    connection = connection_of(hca, qp)
    connection.accepted = headers
    return connection

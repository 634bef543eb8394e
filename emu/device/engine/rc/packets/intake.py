"""Received packets: checks the headers and forwards each packet to its requester or responder.

A packet that fails a check of its headers (``emu.device.engine.rc.headers``) is dropped, and
counted by the check. Bad packets raise no exception here. A packet with the headers of the last one
that has passed needs no second check, unless context, state or port have changed.

Over RoCE a packet with an ECN mark is answered by a CNP, at most one in ``min_time_between_cnps``
for each queue pair. A CNP from the peer slows the queue pair down (``rate.py``) and has no other
effect. A flood of CNPs at worst reduces the flow to the lowest rate.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from emu.device.engine.qp.events import establish
from emu.device.engine.qp.transitions import RECEIVING
from emu.device.engine.rc.headers import WRONG_PKEY, objection
from emu.device.engine.rc.packets.connection import PacketConnection, connection_of
from emu.device.engine.rc.packets.migration import refusal_on_migration
from emu.device.engine.rc.packets.rate import FlowRate
from emu.device.port.packet import Packet
from emu.device.port.train import Train
from emu.device.rounds.costs import (
    LOG_BYTES_PER_STEP,
    LOG_INTERVALS_PER_STEP,
    STEPS_PER_NOTICE,
    STEPS_PER_PACKET,
)
from emu.device.state.points import FaultPoint
from layouts.enums import PmState, QpState
from layouts.wire.bth import PacketKind
from layouts.wire.packet_ops import RESPONSES

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.port.congestion import Congestion
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

PKT_RX_POINT: Final[FaultPoint[[Packet, int], None]] = FaultPoint("pkt.rx")
_RTR: Final = QpState.RTR
_RTS: Final = QpState.RTS
_CNP: Final = PacketKind.CNP
_MIGRATED: Final = PmState.MIGRATED
_NS_PER_US: Final = 1000


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
    link.count_received(1, length)
    qp = hca.qps.get(packet.qpn)
    headers = packet.op.service, packet.slid, packet.pkey, packet.grh, link.attributes
    if (
        qp is None
        or not isinstance(connection := qp.connection, PacketConnection)
        or connection.accepted != headers
        or qp.state not in RECEIVING
        or qp.path_state is not _MIGRATED
    ):
        connection = _examine(hca, qp, packet, headers)
        if connection is None:
            return
        qp = connection.qp
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
            _obey(hca, qp, congestion)
            return None
        if packet.is_marked:
            _answer_mark(hca, qp, congestion)
            return connection_of(hca, qp)
    connection = connection_of(hca, qp)
    connection.accepted = headers
    return connection


# -- congestion notifications (IBTA A17.9)


def _answer_mark(hca: Hca, qp: Qp, congestion: Congestion) -> None:
    """Send a CNP to the peer for a packet with an ECN mark, and count the mark.

    No CNP is sent, nor np_cnp_sent counted, within min_time_between_cnps of the last one, without
    np_enabled for the priority, or without a source GID.
    """
    congestion.counts["np_ecn_marked_roce_packets"] += 1
    connection, now = connection_of(hca, qp), hca.clock.now_ns()
    if not congestion.np_enabled[qp.eth_prio] or now < connection.next_cnp_ns:
        return
    connection.next_cnp_ns = now + congestion.np.min_time_between_cnps * _NS_PER_US
    frame = hca.roce.notification(qp.ctx.primary_address_path, qp.remote_qpn)
    if frame:
        congestion.counts["np_cnp_sent"] += 1
        hca.link.count_sent(1, len(frame))
        hca.wire.transmit(hca, frame, qp.handle)


def _obey(hca: Hca, qp: Qp, congestion: Congestion) -> None:
    """Reduce the rate of a queue pair whose peer has sent a CNP; count rp_cnp_handled.

    Outside RTS, and without rp_enabled for the priority, only rp_cnp_ignored is counted.
    """
    if not congestion.rp_enabled[qp.eth_prio] or qp.state is not _RTS:
        congestion.counts["rp_cnp_ignored"] += 1
        return
    congestion.counts["rp_cnp_handled"] += 1
    connection, now = connection_of(hca, qp), hca.clock.now_ns()
    rate = connection.rate
    if rate is None:
        rate = FlowRate(congestion, now)
        connection.limit(rate)
    before = rate.made_up
    rate.notified(now)
    hca.budget.charge(STEPS_PER_NOTICE + (rate.made_up - before >> LOG_INTERVALS_PER_STEP))

"""Received packets: check the headers and pass each packet to its requester or responder.

The checks are those of IBTA 9.6.1, in the same order; a packet that fails one is dropped, and
counted by the check. Nothing raises here, whatever the wire carries.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from emu.device.points import FaultPoint
from emu.engine.qp.events import establish
from emu.engine.qp.transitions import RECEIVING
from emu.engine.rc.packets.congestion import answer_mark, obey
from emu.engine.rc.packets.connection import connection_of
from emu.port.ib import partitions
from emu.port.packet import SERVICES, Packet
from layouts.bth import RESPONSES, Kind, Service
from layouts.enums import QpState

if TYPE_CHECKING:
    from emu.device.hca import Hca
    from emu.objects import Qp

log = logging.getLogger(__name__)

PKT_RX_POINT: FaultPoint[[Packet, int], None] = FaultPoint("pkt.rx")
_STEPS_PER_PACKET = 2
"""What a packet counts among the steps of a round, beside the pieces of its memory."""
_RTR, _RTS = QpState.RTR, QpState.RTS
_UD, _CNP = Service.UD, Kind.CNP


def receive(hca: Hca, packet: Packet, length: int) -> None:
    """Take a packet of a connected service, ``length`` bytes in all, for this function's LID."""
    try:
        if hca.faults is not None and hca.faults.wants_packets:
            hca.faults.show(PKT_RX_POINT, packet, length)
        else:
            take(hca, packet, length)
    except Exception:
        hca.fail()


def take(hca: Hca, packet: Packet, length: int) -> None:
    """As ``receive``, without the planned faults."""
    if not hca.link.is_up:
        return
    hca.round.steps += _STEPS_PER_PACKET
    hca.link.count_received(1, length)
    qp = hca.qps.get(packet.qpn)
    why = _objection(hca, qp, packet)
    congestion = hca.link.congestion
    if why or qp is None:
        log.debug("%r dropped: %s", packet, why)
        hca.link.dropped[why] += 1
        if congestion is not None and packet.op.kind is _CNP:
            congestion.counts["rp_cnp_ignored"] += 1
        return
    if congestion is not None:
        if packet.op.kind is _CNP:
            obey(hca, qp, congestion)
            return
        if packet.is_marked:
            answer_mark(hca, qp, congestion)
    connection = connection_of(hca, qp)
    if packet.op.kind in RESPONSES:
        if qp.state is _RTS:
            connection.completer.take(packet)
    else:
        if qp.state is _RTR:
            establish(hca, qp)
        connection.responder.request(packet)


def _objection(hca: Hca, qp: Qp | None, packet: Packet) -> str:
    """Why the queue pair does not take the packet, in fixed words; empty when it does."""
    if qp is None:
        return "no such queue pair"
    service = packet.op.service
    if (service is _UD or SERVICES.get(qp.st) is not service) and not _is_notice(hca, qp, service):
        return "not its transport service"
    if qp.state not in RECEIVING:
        return "not in a state that receives"
    if objection := hca.link.objection(packet, qp.destination):
        return objection
    if not partitions.match(hca.link.pkey(qp.pkey_index), packet.pkey):
        return "wrong P_Key"
    return ""


def _is_notice(hca: Hca, qp: Qp, service: Service) -> bool:
    """Whether it is a congestion notification, for a connected queue pair over RoCE."""
    return (
        service is Service.CNP
        and hca.link.congestion is not None
        and SERVICES.get(qp.st) not in (None, _UD)
    )

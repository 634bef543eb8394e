"""Checks a packet's headers against its queue pair (IBTA 9.6.1).

The checks are in the specification's order. Each check runs on each received packet
(``packets/connection.py``), and once on test packets that are not sent (``agreement.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.qp.transitions import RECEIVING
from emu.device.port import partitions
from emu.device.port.packet import Packet
from emu.device.port.partitions import PKEY_FULL_MEMBER
from layouts.wire.bth import Service

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.port.link import PacketReceiver

WRONG_PKEY: Final = "wrong P_Key"
_NO_QP: Final = "no such queue pair"
_WRONG_SERVICE: Final = "wrong transport service"
_NOT_RECEIVING: Final = "not in a receiving state"
_CNP: Final = Service.CNP
ABOUT_QUEUE_PAIR: Final = frozenset({_NO_QP, _WRONG_SERVICE, _NOT_RECEIVING})
"""Objections that are independent of the packet's path."""


def objection(link: PacketReceiver, qp: Qp | None, packet: Packet) -> str:
    """Return a fixed reason why the queue pair refuses the packet; "" when it accepts it.

    The checks are, in this order: existence (``qp`` None), service, receiving state, LIDs or GIDs
    of the path, P_Key. State and counters stay unchanged: the caller drops and counts the packet.
    """
    if qp is None:
        return _NO_QP
    service = packet.op.service
    if qp.service is not service and not _is_notice(link, qp, service):
        return _WRONG_SERVICE
    if qp.state not in RECEIVING:
        return _NOT_RECEIVING
    if why := link.objection(packet, qp.destination, qp.route):
        return why
    pkey = link.pkey(qp.pkey_index)
    # Most keys are the same one of a full member.
    is_other = pkey != packet.pkey or pkey <= PKEY_FULL_MEMBER
    return WRONG_PKEY if is_other and not partitions.match(pkey, packet.pkey) else ""


def _is_notice(link: PacketReceiver, qp: Qp, service: Service) -> bool:
    """Return whether ``service`` is CNP and the queue pair may receive one.

    False for datagram services, and on a port without congestion control (InfiniBand).
    """
    return service is _CNP and link.congestion is not None and qp.service is not None

"""What packets say about migration, and what follows from it (IBTA 9.6.1.5, 17.2.8.1).

The migration bit of a packet says that its sender's path is not to change. So one without it tells
a queue pair that is to be rearmed that its peer is, too; and one with it tells an armed queue pair
that its peer has migrated. It follows if the packet has come by the alternate path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.qp.events import raise_qp_event
from emu.device.engine.qp.migration import migrate
from emu.device.engine.rc.headers import ABOUT_QUEUE_PAIR
from emu.device.port.ib import partitions
from emu.device.port.packet import Packet
from layouts.enums import EventType, PmState

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.state.hca import Hca

_ARMED: Final = PmState.ARMED
_REARM: Final = PmState.REARM


def judge(hca: Hca, qp: Qp, packet: Packet, why: str) -> str:
    """Why a queue pair with an alternate path does not take a packet; empty when it does.

    ``why`` is what the primary path has against it. The packet may arm the queue pair, or make it
    migrate.
    """
    if why in ABOUT_QUEUE_PAIR:
        return why
    if qp.path_state is _REARM:
        if not why and not packet.is_migrated:
            qp.arm()
        return why
    if not packet.is_migrated:
        return why
    if not _comes_by_alternate(hca, qp, packet):
        if not qp.has_refused_path:
            qp.has_refused_path = True
            raise_qp_event(hca, qp, EventType.PATH_MIG_FAILED)
        return "migrated to another path than the alternate one"
    migrate(hca, qp, "its peer has")
    return ""


def _comes_by_alternate(hca: Hca, qp: Qp, packet: Packet) -> bool:
    path = qp.ctx.secondary_address_path
    route = hca.link.global_route(path)
    if hca.link.objection(packet, hca.link.destination(path), route):
        return False
    return partitions.match(hca.link.pkey(path.pkey_index), packet.pkey)

"""Path migration by received packets (IBTA 9.6.1.5, 17.2.8.1).

The migration bit of a packet means that its sender's path will not change. A packet without the bit
therefore arms a queue pair in REARM: its peer is in REARM or ARMED, too. A packet with the bit
shows an ARMED queue pair that its peer has migrated. The queue pair migrates too if the packet
arrived by the alternate path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.qp.events import raise_qp_event
from emu.device.engine.qp.migration import migrate
from emu.device.engine.rc.headers import ABOUT_QUEUE_PAIR
from emu.device.port import partitions
from emu.device.port.packet import Packet
from layouts.enums.eqe import EventType
from layouts.enums.qp import PmState

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.port.link import Link
    from emu.device.state.hca import Hca

_ARMED: Final = PmState.ARMED
_REARM: Final = PmState.REARM


def refusal_on_migration(hca: Hca, qp: Qp, packet: Packet, why: str) -> str:
    """Return why a queue pair with an alternate path refuses a packet; "" when it accepts it.

    ``why`` is the objection of the primary path. In REARM a packet without the migration bit arms
    the queue pair. In ARMED one with the bit makes it migrate (PATH_MIG) if it came by the
    alternate path. Otherwise the packet is refused, and PATH_MIG_FAILED raised once for each
    context.
    """
    if why in ABOUT_QUEUE_PAIR:
        return why
    if qp.path_state is _REARM:
        if not why and not packet.is_migrated:
            qp.arm()
        return why
    if not packet.is_migrated:
        return why
    if not _comes_by_alternate(hca.link, qp, packet):
        if not qp.has_refused_path:
            qp.has_refused_path = True
            raise_qp_event(hca.events, qp, EventType.PATH_MIG_FAILED)
        return "migrated to another path than the alternate one"
    migrate(hca, qp, "the peer has migrated")
    return ""


def _comes_by_alternate(link: Link, qp: Qp, packet: Packet) -> bool:
    """Return whether a packet has the addresses and P_Key of the alternate path."""
    path = qp.ctx.secondary_address_path
    route = link.global_route(path)
    if link.objection(packet, link.destination(path), route):
        return False
    return partitions.match(link.pkey(path.pkey_index), packet.pkey)

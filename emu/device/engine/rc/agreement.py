"""Which connected queue pairs may do without packets.

A message to a queue pair of this process is moved in one call only if two things are certain: all
packets that it would take, and those of the responses, would be taken where they arrive, and the
only reason to refuse one would be what the responder's steps find, which both ways pass. So nothing
about a connection may be wrong: everything else goes as packets, which then end as they do.

The two packets that tell are made and parsed here, and are checked by the function that checks
received ones (``headers.py``). This is done once for each context and each state of both ports'
tables, and not for each message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.rc.headers import objection
from emu.device.objects.queues.qp import Qp
from emu.device.port.packet import OPS, SERVICES, BadPacketError, Packet
from layouts.enums import PmState
from layouts.wire.bth import PacketKind

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_MIGRATED: Final = PmState.MIGRATED


def agree(hca: Hca, qp: Qp, node: Hca, peer: Qp) -> bool:
    """Note that messages may be handed to the peer as long as contexts and tables are as now.

    False when they may not.
    """
    if not _is_flawless(hca, qp, node, peer):
        return False
    qp.agreed = peer.revision, hca.link.attributes, node.link.attributes
    qp.reads_ahead = qp.ctx.log_sra_max > peer.ctx.log_rra_max
    return True


def _is_flawless(hca: Hca, qp: Qp, node: Hca, peer: Qp) -> bool:
    """Whether nothing about a connection is wrong, seen from both of its ends.

    Nor may it migrate, of which packets tell (``engine.rc.packets.migration``).
    A path MTU of its own would cut messages otherwise than the peer expects, and one that the link
    has no room for would lose them (IBTA 9.7.4.1.6).
    """
    return (
        peer.remote_qpn == qp.handle
        and qp.path_state is peer.path_state is _MIGRATED
        and node.wire.node(peer.destination) is hca
        and peer.mtu_bytes == qp.mtu_bytes
        and peer.log_msg_max >= qp.log_msg_max
        and qp.mtu_bytes <= min(hca.link.most_payload, node.link.most_payload)
        and _takes(node, peer, hca, qp)
        and _takes(hca, qp, node, peer)
    )


def _takes(hca: Hca, qp: Qp, node: Hca, peer: Qp) -> bool:
    """Whether a queue pair takes the packets that its peer sends."""
    op = OPS[SERVICES[peer.st], PacketKind.SEND, True, True, None]
    route = node.link.route(peer.ctx.primary_address_path)
    try:
        packet, _ = hca.link.parse(route.frame(Packet(op, qp.handle, 0)))
    except BadPacketError:
        return False
    return not objection(hca, qp, packet)

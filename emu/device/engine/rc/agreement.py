"""Decides which connected queue pairs may exchange messages without packets.

A message to a queue pair of this process is moved in one call only under two conditions. All
packets of the message and of its responses would be accepted on arrival. A packet could be refused
only by the responder's steps, which run in both cases. The connection must therefore be free of
errors. All other messages are sent as packets, with the outcomes of packets.

A test packet for each direction is made and parsed here, and checked by the function that checks
received ones (``headers.py``). The check runs once for each context and each state of both ports'
tables, not for each message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.rc.headers import objection
from emu.device.objects.queues.direct_path import DirectPath
from emu.device.objects.queues.qp import Qp
from emu.device.port.packet import OPS, BadPacketError, Packet
from layouts.enums.qp import PmState, QpType
from layouts.wire.bth import PacketKind

if TYPE_CHECKING:
    from emu.device.port.link import PacketReceiver, Paths
    from emu.device.state.hca import Hca

_MIGRATED: Final = PmState.MIGRATED


def agree(hca: Hca, qp: Qp, node: Hca, peer: Qp) -> DirectPath | None:
    """Return the new direct path to ``peer``, which is also the queue pair's, or None.

    Its terms hold until a context or one of both ports' tables changes. None changes no state: a
    packet could be refused, so packets are needed.
    """
    if not _is_flawless(hca, qp, node, peer):
        return None
    ours, theirs = hca.link, node.link
    qp.direct_path = path = DirectPath(
        (peer.revision, ours.attributes, theirs.attributes), ours, theirs, qp.header_bytes,
        qp.mtu_bytes, qp.marks, has_acks=qp.st is not QpType.UC,
        is_up=ours.is_up and theirs.is_up,
        reads_ahead=qp.max_rd_atomic > peer.max_dest_rd_atomic,
    )  # fmt: skip
    return path


def _is_flawless(hca: Hca, qp: Qp, node: Hca, peer: Qp) -> bool:
    """Return whether each end accepts all packets of the other, and neither can migrate.

    False in REARM or ARMED (migration needs packets), for another remote_qpn or destination, for a
    shorter max_message at the peer, and for refused headers. Path MTUs must be equal, or the peer
    would expect other segments, and fit the links, which would drop the packets (IBTA 9.7.4.1.6).
    """
    return (
        peer.remote_qpn == qp.handle
        and qp.path_state is peer.path_state is _MIGRATED
        and node.wire.node(peer.destination) is hca
        and peer.mtu_bytes == qp.mtu_bytes
        and peer.max_message >= qp.max_message
        and qp.mtu_bytes <= min(hca.link.max_payload, node.link.max_payload)
        and _accepts(node.link, peer, hca.link, qp)
        and _accepts(hca.link, qp, node.link, peer)
    )


def _accepts(link: PacketReceiver, qp: Qp, peer_link: Paths, peer: Qp) -> bool:
    """Return whether ``qp`` accepts the headers of the packets that ``peer`` sends.

    A test packet is built, parsed and checked, but not sent. False also when the port of ``peer``
    can build no valid frame, for example without a GID.
    """
    op = OPS[peer.service, PacketKind.SEND, True, True, None]
    route = peer_link.route(peer.ctx.primary_address_path)
    try:
        packet, _ = link.parse(route.frame(Packet().of(op, qp.handle, 0)))
    except BadPacketError:
        return False
    return not objection(link, qp, packet)

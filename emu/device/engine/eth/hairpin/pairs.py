"""The two queues of a hairpin: each finds the other by number, if both name each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.objects.eth.hairpin import Hairpin, HairpinSq, Peer
from emu.device.objects.eth.rq import Rq
from emu.device.objects.object import Object
from layouts.enums.wq import RqState, SqState

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.state.hca import Hca


def named(vhca: Vhca[Hca], queue: Object) -> Peer:
    """Return the name by which the peer refers to a queue of the function."""
    return Peer(vhca.number, queue.handle)


def sender_for(vhca: Vhca[Hca], rq: Rq, hairpin: Hairpin) -> tuple[Hca, HairpinSq] | None:
    """Return the function and the send queue by which packets of a receive queue in RDY leave.

    None unless a send queue in RDY names the receive queue as well.
    """
    peer = hairpin.peer
    assert peer is not None  # the queue is in RDY
    node = vhca.adapter.board.node_of(peer.vhca)
    if node is None:
        return None
    sq = node.sqs.get(peer.number)
    if isinstance(sq, HairpinSq) and sq.state is SqState.RDY and sq.peer == named(vhca, rq):
        return node, sq
    return None


def packets_for(vhca: Vhca[Hca], sq: HairpinSq) -> Hairpin | None:
    """Return the backlog of packets that a hairpin send queue in RDY serves.

    None unless its receive queue is in RDY and both queues name each other.
    """
    peer = sq.peer
    assert peer is not None  # the queue is in RDY
    node = vhca.adapter.board.node_of(peer.vhca)
    if node is None:
        return None
    rq = node.rqs.get(peer.number)
    if rq is None or rq.hairpin is None or rq.state is not RqState.RDY:
        return None
    return rq.hairpin if rq.hairpin.peer == named(vhca, sq) else None

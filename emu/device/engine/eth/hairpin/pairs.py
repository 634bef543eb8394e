"""The two queues of a hairpin: each finds the other by number, if both name each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.objects.eth.hairpin import Hairpin, HairpinSq, Peer
from emu.device.objects.eth.rq import Rq
from emu.device.objects.object import Object
from layouts.eth_enums import RqState, SqState

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.state.hca import Hca


def named(vhca: Vhca[Hca], queue: Object) -> Peer:
    """Return the name by which the peer refers to a queue of the function."""
    return Peer(vhca.number, queue.handle)


def sender_for(vhca: Vhca[Hca], rq: Rq, hairpin: Hairpin) -> tuple[Hca, HairpinSq] | None:
    """Return the function and the send queue by which a hairpin receive queue's packets leave.

    None unless a send queue in RDY names the receive queue as well.
    """
    peer = hairpin.peer
    node = vhca.adapter.board.node_of(peer.vhca) if peer is not None else None
    if peer is None or node is None:
        return None
    sq = node.sqs.get(peer.number)
    if isinstance(sq, HairpinSq) and sq.state is SqState.RDY and sq.peer == named(vhca, rq):
        return node, sq
    return None


def packets_for(vhca: Vhca[Hca], sq: HairpinSq) -> Hairpin | None:
    """Return the backlog of packets that a hairpin send queue serves.

    None unless its receive queue is in RDY and both queues name each other. The send queue's own
    state is not checked.
    """
    peer = sq.peer
    node = vhca.adapter.board.node_of(peer.vhca) if peer is not None else None
    if peer is None or node is None:
        return None
    rq = node.rqs.get(peer.number)
    hairpin = rq.hairpin if rq is not None else None
    if rq is None or hairpin is None or rq.state is not RqState.RDY:
        return None
    return hairpin if hairpin.peer == named(vhca, sq) else None

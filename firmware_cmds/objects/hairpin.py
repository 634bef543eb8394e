"""Hairpin queues in the commands of send and receive queues (core/transobj.c).

The driver creates both queues of a pair, then moves the send queue to RDY and after it the receive
queue. Each command names the other queue, of the same function or of another one of the board. The
command is refused unless that number is a hairpin queue without another peer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth.hairpin.pairs import named
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.hairpin import Hairpin, HairpinSq, Peer
from emu.device.objects.eth.rq import Rq
from layouts.enums.cmd import Status
from layouts.enums.wq import MemRqType, RqState, SqState

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.objects.domains import QCounter
    from emu.device.objects.eth.tis import Tis
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from emu.device.state.parts.scheduler import Scheduler
    from emu.device.state.tables import ObjectTables
    from layouts.objects.rq import rqc
    from layouts.objects.sq import sqc
    from layouts.objects.srq import wq


def receive_queue(hca: Hca, ctx: rqc, counter: QCounter | None) -> Rq:
    """Return a new hairpin receive queue in RST; the caller adds it to the table.

    The queue has no CQ and no memory of the driver's. Raises BAD_PARAM_ERR without the capability
    hairpin or for a mem_rq_type other than INLINE. Raises LIM_ERR for sizes beyond the capabilities
    or a full table.
    """
    _check_sizes(hca.caps, ctx.wq)
    if ctx.mem_rq_type != MemRqType.INLINE:
        raise BadParamError("mem_rq_type not supported", f"{ctx.mem_rq_type}")
    hca.rqs.check_space()
    wq = ctx.wq
    waiting = Hairpin(hca.memory, wq.log_hairpin_data_sz, wq.log_hairpin_num_packets)
    return Rq(ctx, waiting, None, counter, host_bytes=waiting.host_bytes, hairpin=waiting)


def send_queue(tables: ObjectTables, ctx: sqc, tis: Tis | None) -> HairpinSq:
    """Return a new hairpin send queue in RST; the caller adds it to the table.

    The kernel creates it without a TIS, DPDK with one. Raises BAD_PARAM_ERR without the capability
    hairpin. Raises LIM_ERR for sizes beyond the capabilities or a full table.
    """
    _check_sizes(tables.caps, ctx.wq)
    tables.sqs.check_space()
    return HairpinSq(ctx, tis)


def _check_sizes(caps: Caps, wq: wq) -> None:
    """Refuse hairpin sizes beyond the capabilities with LIM_ERR.

    Without the capability hairpin the refusal is BAD_PARAM_ERR.
    """
    general = caps.general
    if not general.hairpin:
        raise BadParamError("queue option not supported", "hairpin")
    least, limit = general.log_min_hairpin_wq_data_sz, general.log_max_hairpin_wq_data_sz
    if not least <= wq.log_hairpin_data_sz <= limit:
        raise CmdError(
            Status.LIM_ERR, "log_hairpin_data_sz not supported", f"{wq.log_hairpin_data_sz}"
        )
    if wq.log_hairpin_num_packets > general.log_max_hairpin_num_packets:
        raise CmdError(
            Status.LIM_ERR,
            "log_hairpin_num_packets above log_max_hairpin_num_packets",
            f"{wq.log_hairpin_num_packets}",
        )


def sender_peer(hca: Hca, rq: Rq, state: RqState, ctx: rqc) -> Peer | None:
    """Return the send queue that a receive queue is paired with when it enters ``state``.

    A new peer is read from ``ctx`` only from RST to RDY; other changes keep the present one, and
    RST returns None. Raises BAD_RES_ERR if that number is no hairpin queue, BAD_RES_STATE_ERR if
    its peer is another queue, BAD_PARAM_ERR for an unknown vhca. Changes no queue.
    """
    assert rq.hairpin is not None
    if rq.state is not RqState.RST or state is not RqState.RDY:
        return rq.hairpin.peer if state is not RqState.RST else None
    peer = Peer(ctx.hairpin_peer_vhca, ctx.hairpin_peer_sq)
    node = _function(hca.vhca, peer)
    sq = hca.sqs.need(peer.number) if node is hca else node.sqs.get(peer.number)
    if not isinstance(sq, HairpinSq):
        raise CmdError(
            Status.BAD_RES_ERR, "hairpin_peer_sq is not a hairpin queue", f"{peer.number:#x}"
        )
    _check_free(sq.peer, named(hca.vhca, rq))
    return peer


def receiver_peer(hca: Hca, sq: HairpinSq, state: SqState, ctx: sqc) -> Peer | None:
    """Return the receive queue that a send queue is paired with when it enters ``state``.

    The rules are those of :func:`sender_peer`.
    """
    if sq.state is not SqState.RST or state is not SqState.RDY:
        return sq.peer if state is not SqState.RST else None
    peer = Peer(ctx.hairpin_peer_vhca, ctx.hairpin_peer_rq)
    node = _function(hca.vhca, peer)
    rq = hca.rqs.need(peer.number) if node is hca else node.rqs.get(peer.number)
    if rq is None or rq.hairpin is None:
        raise CmdError(
            Status.BAD_RES_ERR, "hairpin_peer_rq is not a hairpin queue", f"{peer.number:#x}"
        )
    _check_free(rq.hairpin.peer, named(hca.vhca, sq))
    return peer


def _function(vhca: Vhca[Hca], peer: Peer) -> Hca:
    """Return the board's function with the vhca of ``peer``; else raise BAD_PARAM_ERR."""
    node: Hca | None = vhca.adapter.board.node_of(peer.vhca)
    if node is None:
        raise BadParamError("hairpin_peer_vhca is not a function of the board", f"{peer.vhca}")
    return node


def _check_free(present: Peer | None, requested: Peer) -> None:
    if present not in (None, requested):
        raise CmdError(Status.BAD_RES_STATE_ERR, "the hairpin peer belongs to another pair")


def pair_receiver(rq: Rq, hairpin: Hairpin, peer: Peer | None) -> None:
    """Record the peer of a receive queue, also in its context; None clears both.

    The peer's own record is not changed.
    """
    hairpin.peer = peer
    rq.ctx.hairpin_peer_vhca, rq.ctx.hairpin_peer_sq = peer or (0, 0)


def pair_sender(scheduler: Scheduler, sq: HairpinSq, peer: Peer | None) -> None:
    """Record the peer of a send queue, also in its context; None clears both.

    Schedule the send queue, because packets may already wait for it. The peer's own record is not
    changed.
    """
    sq.peer = peer
    sq.ctx.hairpin_peer_vhca, sq.ctx.hairpin_peer_rq = peer or (0, 0)
    scheduler.schedule(sq)

"""Flush: requests posted to a stopped queue complete with WR_FLUSH_ERR (IBTA 10.3.1, o10-2.1).

In ERR every posted request is flushed, now or later; in SQER only sends are. Sends ring a doorbell;
receives do not. A queue pair in ERR with a receive ring therefore polls the doorbell record by
timer, at growing intervals: a draining driver posts its last receive after the transition (hw/qp.c:
mlx5_ib_drain_rq).
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import completions
from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.qp.events import raise_qp_event
from emu.device.engine.tm import matching, rendezvous, reports
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_request import ReceiveRequest
from emu.device.ports import DmaError
from emu.device.rounds.sizes import FLUSHED_PER_POLL
from emu.device.state.error_queue_poller import INTERVAL_NS
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType

if TYPE_CHECKING:
    from emu.device.objects.queues.srq import Srq
    from emu.device.objects.table import Table
    from emu.device.state.completions import Completions
    from emu.device.state.hca import Hca
    from emu.device.state.parts.scheduler import Scheduler

log = logging.getLogger(__name__)

FIRST_FLUSH_POLL_NS: Final = 1_000_000
LAST_FLUSH_POLL_NS: Final = INTERVAL_NS


def flush(hca: Hca, qp: Qp) -> None:
    """Complete with WR_FLUSH_ERR the requests that are posted to the stopped queues.

    In ERR these are sends and receives, in SQER only sends; in other states this does nothing. At
    most FLUSHED_PER_POLL of each are flushed; a further poll is scheduled if sends are left.
    """
    if qp.state in (QpState.ERR, QpState.SQER):
        _flush_sends(hca.cqes, hca.scheduler, qp)
    if qp.state is QpState.ERR:
        _flush_kept(hca.cqes, hca.srqs, qp)
        _flush_receives(hca.cqes, hca.srqs, qp)


def begin_flush(hca: Hca, qp: Qp, *, is_deferred: bool = False) -> None:
    """Flush a queue pair that has just entered ERR, and start polling its receive ring.

    A queue pair on an SRQ has no ring; it raises SRQ_LAST_WQE instead, unless it is XRC. With
    ``is_deferred`` the next poll flushes the rings, for callers that stop many queue pairs.
    """
    if is_deferred:
        _abandon(hca.cqes, qp)
        hca.scheduler.schedule(qp)
    else:
        _flush_sends(hca.cqes, hca.scheduler, qp)
    _flush_kept(hca.cqes, hca.srqs, qp)
    if qp.rq is not None:
        if not is_deferred:
            _flush_receives(hca.cqes, hca.srqs, qp)
        _poll_later(hca, qp, FIRST_FLUSH_POLL_NS)
    elif qp.srq is not None and qp.st is not QpType.XRC:
        raise_qp_event(hca.events, qp, EventType.SRQ_LAST_WQE)


def _abandon(cqes: Completions, qp: Qp) -> None:
    """Abandon packets in flight, and cancel the adapter's own rendezvous."""
    if qp.connection is not None:
        qp.connection.stop()
    if qp.adapter_requests is not None:
        rendezvous.cancel(cqes, qp)


def _flush_sends(cqes: Completions, scheduler: Scheduler, qp: Qp) -> None:
    """Complete up to FLUSHED_PER_POLL posted sends with WR_FLUSH_ERR.

    A further poll is scheduled if more may be left. Packets in flight are abandoned, and the
    adapter's own rendezvous cancelled. An unreadable ring is only logged.
    """
    _abandon(cqes, qp)
    sq, cq = qp.sq, qp.scq
    if sq is None or cq is None:
        return
    try:
        left = FLUSHED_PER_POLL
        for ctrl in islice(sq.drain(), FLUSHED_PER_POLL):
            left -= 1
            completions.fail_send(
                cqes, cq, qp, CqeSyndrome.WR_FLUSH_ERR, ctrl >> 8 & 0xFFFF, ctrl & 0xFF
            )
        if not left:
            scheduler.schedule(qp)
    except DmaError as error:
        log.warning("%r: send queue cannot be flushed: %s", qp, error)


def _flush_kept(cqes: Completions, srqs: Table[Srq], qp: Qp) -> None:
    """Complete ``qp.waiting_receive``, the receive WQE set aside, with WR_FLUSH_ERR, if any."""
    waiting, qp.waiting_receive = qp.waiting_receive, None
    if waiting is not None:
        fail_receive(cqes, srqs, qp, waiting, CqeSyndrome.WR_FLUSH_ERR)


def _poll_receives(hca: Hca, qp: Qp, interval_ns: int) -> None:
    """Check a queue pair in ERR for newly posted receives, and set the next check.

    Posted receives schedule the queue pair, whose poll flushes them, and reset the interval;
    otherwise the interval doubles up to LAST_FLUSH_POLL_NS. Checks end when the queue pair leaves
    ERR or is destroyed.
    """
    if qp.state is not QpState.ERR or hca.qps.get(qp.handle) is not qp:
        return
    if _has_receives(qp):
        hca.scheduler.schedule(
            qp
        )  # many queue pairs may have receives in one round: each flushes in its poll
        interval_ns = FIRST_FLUSH_POLL_NS
    else:
        interval_ns = min(interval_ns * 2, LAST_FLUSH_POLL_NS)
    _poll_later(hca, qp, interval_ns)


def _has_receives(qp: Qp) -> bool:
    """Return whether receives are posted; False also when the doorbell record is unreadable."""
    try:
        return qp.rq is not None and qp.rq.posted() > 0
    except DmaError:
        return False


def _poll_later(hca: Hca, qp: Qp, interval_ns: int) -> None:
    """Set the next check for posted receives, by a timer of the queue pair.

    At the longest interval the poller that all queues in error share makes the check.
    """
    again = partial(_poll_receives, hca, qp, interval_ns)
    if interval_ns < LAST_FLUSH_POLL_NS:
        qp.timer = hca.clock.call_later(interval_ns, again)
    else:
        qp.timer = hca.lifetime.error_queue_poller.add(again)


def _flush_receives(cqes: Completions, srqs: Table[Srq], qp: Qp) -> None:
    """Complete up to FLUSHED_PER_POLL receives of the queue pair's own ring with WR_FLUSH_ERR.

    An unreadable ring is only logged. The requests of a shared queue stay there.
    """
    ring, cq = qp.rq, qp.rcq
    if ring is None or cq is None:  # CREATE_QP requires both or neither
        return
    try:
        for _ in range(min(ring.posted(), FLUSHED_PER_POLL)):
            wqe = ring.take()
            if wqe is None:
                break
            completions.fail_receive(cqes, srqs, cq, qp, CqeSyndrome.WR_FLUSH_ERR, wqe.index)
    except DmaError as error:
        log.warning("%r: receive queue cannot be flushed: %s", qp, error)


def fail_receive(
    cqes: Completions,
    srqs: Table[Srq],
    qp: Qp,
    receive: ReceiveRequest,
    syndrome: CqeSyndrome,
    cause: Cause = Cause.ANY,
) -> None:
    """Complete a receive WQE in error and detach it; do nothing if it is complete.

    The matched entry of a tag list gets MSG_COMPLETION_CANCELED instead of an error CQE. The queue
    pair's state does not change.
    """
    wqe, receive.wqe = receive.wqe, None
    if wqe is not None and not _cancel_tagged(cqes, qp, receive):
        completions.fail_receive(
            cqes, srqs, receive.cq, qp, syndrome, wqe.index, receive.srqn, cause
        )


def _cancel_tagged(cqes: Completions, qp: Qp, receive: ReceiveRequest) -> bool:
    """Cancel the tag list entry of a receive request; return whether it had one.

    An entry is released and reported by MSG_COMPLETION_CANCELED. False for a request of the receive
    queue: an unexpected message is uncounted, and the caller writes the CQE.
    """
    arrival, srq = receive.arrival, qp.srq
    if arrival is None or srq is None or srq.tags is None:
        return False
    matching.uncount_unexpected(srq.tags, arrival)
    if arrival.entry is None:
        return False
    reports.cancel(cqes, qp, srq, arrival.entry)
    return True

"""What happens to a queue pair when its state changes: flush, restart, and the events about it.

In ERR every request that is posted, now or later, completes with WR_FLUSH_ERR (IBTA 10.3.1,
o10-2.1); in SQER only sends do. Sends ring a doorbell; receives do not, so a queue pair in ERR with
a receive ring polls the doorbell record by timer, less and less often: a driver that drains posts
its last receive after the transition (hw/qp.c: mlx5_ib_drain_rq).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from functools import partial
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from emu.device.looks import INTERVAL_NS
from emu.engine.events import completions
from emu.engine.events import eq as eq_engine
from emu.engine.events.counters import count_event
from emu.engine.mr import page_faults
from emu.objects import Cq, Qp, Srq
from emu.objects.page_fault import Side
from emu.objects.receive_queue import ListBrokenError, RecvWqe, TakenWqe
from emu.ports import DmaError
from layouts.enums import CqeSyndrome, EventType, QpState, QpType

if TYPE_CHECKING:
    from emu.device.hca import Hca

log = logging.getLogger(__name__)

FIRST_FLUSH_LOOK_NS = 1_000_000
LAST_FLUSH_LOOK_NS = INTERVAL_NS
FLUSHED_AT_ONCE = 256
"""Requests of a queue that complete with WR_FLUSH_ERR in one turn; a ring may have 32,768."""

_CONNECTED = frozenset({QpType.RC, QpType.UC, QpType.XRC})
"""Services with a path of their own; a datagram's is in its request."""

_QP_SRQ_DATA = Struct(">20xB3xI")


def raise_qp_event(hca: Hca, qp: Qp, event: EventType) -> None:
    """Raise an affiliated asynchronous event of a queue pair."""
    count_event(qp, event)
    eq_engine.raise_event(hca, event, _QP_SRQ_DATA.pack(0, qp.handle))


def raise_srq_event(hca: Hca, srqn: int, event: EventType) -> None:
    """Raise an affiliated asynchronous event of a shared receive queue."""
    eq_engine.raise_event(hca, event, _QP_SRQ_DATA.pack(0, srqn))


def check_srq_limit(hca: Hca, srqn: int) -> None:
    """Raise the limit event, once for each arming, when fewer requests are posted than the limit.

    A doorbell record that cannot be read breaks the queue; the request just taken is still filled.
    """
    srq = hca.srqs.get(srqn)
    if srq is None or not srq.lwm:
        return
    try:
        is_low = srq.queue.posted() < srq.lwm
    except DmaError as error:
        log.warning("%r: its limit cannot be checked: %s", srq, error)
        break_srq(hca, srq)
        return
    if is_low:
        srq.lwm = 0
        raise_srq_event(hca, srqn, EventType.SRQ_RQ_LIMIT)


def break_srq(hca: Hca, srq: Srq) -> None:
    """Raise an event, once, that the shared queue cannot be read any more."""
    if not srq.is_in_error:
        srq.is_in_error = True
        raise_srq_event(hca, srq.handle, EventType.SRQ_CATAS_ERROR)


def take_shared(srq: Srq) -> RecvWqe | None:
    """The next request of a shared queue; None when it is empty.

    Raises DmaError, and ListBrokenError for a queue in its error state as well.
    """
    if srq.is_in_error:
        raise ListBrokenError("it is in its error state")
    return srq.queue.take()


def break_receives(hca: Hca, qp: Qp, srq: Srq | None, why: Exception) -> None:
    """Receive requests cannot be read: an event for each queue concerned, and the QP stops."""
    log.warning("%r: receive queue is broken: %s", qp, why)
    if srq is not None:
        break_srq(hca, srq)
    raise_qp_event(hca, qp, EventType.WQ_CATAS_ERROR)
    to_error(hca, qp)


def entered(hca: Hca, qp: Qp, source: QpState) -> None:
    """A command has changed the context: decode it and act on the new state."""
    qp.decode()
    if qp.st in _CONNECTED:
        qp.destination = hca.link.destination(qp.ctx.primary_address_path)
        qp.header_bytes = hca.link.header_bytes(qp.destination)
    if qp.state is source:
        return
    qp.stop_waiting()
    if qp.state is QpState.RST:
        stop_paging(hca, qp)
        qp.restart()
    elif qp.state is QpState.ERR:
        page_faults.cancel(hca, qp)
        _begin_flush(hca, qp)
    elif qp.state is QpState.RTS:
        hca.schedule(qp)


def to_error(hca: Hca, qp: Qp) -> None:
    """The device itself moves a queue pair to ERR."""
    if qp.state is not QpState.ERR:
        log.info("%r: to ERR from %s", qp, qp.state.name)
        qp.state = QpState.ERR
        qp.stop_waiting()
        page_faults.cancel(hca, qp)
        _begin_flush(hca, qp)


def to_send_queue_error(hca: Hca, qp: Qp) -> None:
    """An unreliable service stops sending but goes on receiving (IBTA 10.3.1.6)."""
    log.info("%r: to SQER from %s", qp, qp.state.name)
    qp.state = QpState.SQER
    qp.stop_waiting()
    page_faults.cancel(hca, qp, Side.REQUESTER)
    flush(hca, qp)


def drained(hca: Hca, qp: Qp) -> None:
    """Move to SQD after a signature error (drain_sigerr), once the request is complete."""
    log.info("%r: to SQD from %s: signature error", qp, qp.state.name)
    qp.is_draining = False
    qp.state = QpState.SQD
    qp.stop_waiting()
    raise_qp_event(hca, qp, EventType.SQ_DRAINED)


def stop_paging(hca: Hca, qp: Qp) -> None:
    """Reset: return receive requests that no message has filled to their shared queue."""
    page_faults.cancel(hca, qp)
    unfinished = [qp.kept, *(qp.connection.unfinished() if qp.connection is not None else ())]
    qp.kept = None
    for taken in unfinished:
        if taken is None or taken.wqe is None:
            continue
        srq = hca.srqs.get(taken.srqn)
        if srq is not None:
            srq.queue.give_back(taken.wqe)


def flush(hca: Hca, qp: Qp) -> None:
    """Complete with WR_FLUSH_ERR the requests that are posted to the stopped queues.

    What is too much for one turn is left for the queue pair's next one.
    """
    if qp.state in (QpState.ERR, QpState.SQER):
        _flush_sends(hca, qp)
    if qp.state is QpState.ERR:
        _flush_kept(hca, qp)
        _flush_receives(hca, qp)


def _begin_flush(hca: Hca, qp: Qp) -> None:
    """The queue pair has just entered ERR."""
    _flush_sends(hca, qp)
    _flush_kept(hca, qp)
    if qp.rq is not None:
        _flush_receives(hca, qp)
        _look_again(hca, qp, FIRST_FLUSH_LOOK_NS)
    elif qp.srq is not None and qp.st is not QpType.XRC:
        raise_qp_event(hca, qp, EventType.SRQ_LAST_WQE)


def _flush_sends(hca: Hca, qp: Qp) -> None:
    if qp.connection is not None:
        qp.connection.stop()
    sq, cq = qp.sq, qp.scq
    if sq is None or cq is None:
        return
    try:
        left = FLUSHED_AT_ONCE
        for ctrl in islice(sq.drain(), FLUSHED_AT_ONCE):
            left -= 1
            completions.fail_send(
                hca, cq, qp, CqeSyndrome.WR_FLUSH_ERR, ctrl >> 8 & 0xFFFF, ctrl & 0xFF
            )
        if not left:
            hca.schedule(qp)
    except DmaError as error:
        log.warning("%r: send queue cannot be flushed: %s", qp, error)


def _flush_kept(hca: Hca, qp: Qp) -> None:
    """Flush the receive request of a message that waited for a page."""
    kept, qp.kept = qp.kept, None
    if kept is not None:
        fail_receive(hca, qp, kept, CqeSyndrome.WR_FLUSH_ERR)


def _look_for_receives(hca: Hca, qp: Qp, interval_ns: int) -> None:
    if qp.state is not QpState.ERR or hca.qps.get(qp.handle) is not qp:
        return
    if _has_receives(qp):
        hca.schedule(qp)  # many looks may find something in one round: each flushes in its turn
        interval_ns = FIRST_FLUSH_LOOK_NS
    else:
        interval_ns = min(interval_ns * 2, LAST_FLUSH_LOOK_NS)
    _look_again(hca, qp, interval_ns)


def _has_receives(qp: Qp) -> bool:
    try:
        return qp.rq is not None and qp.rq.posted() > 0
    except DmaError:
        return False


def _look_again(hca: Hca, qp: Qp, interval_ns: int) -> None:
    again = partial(_look_for_receives, hca, qp, interval_ns)
    if interval_ns < LAST_FLUSH_LOOK_NS:
        qp.timer = hca.clock.call_later(interval_ns, again)
    else:
        qp.timer = hca.seldom_looks.add(again)


def _flush_receives(hca: Hca, qp: Qp) -> None:
    """Flush some of the requests now in the receive ring."""
    ring, cq = qp.rq, qp.rcq
    if ring is None or cq is None:
        return
    try:
        for _ in range(min(ring.posted(), FLUSHED_AT_ONCE)):
            wqe = ring.take()
            if wqe is None:
                break
            completions.fail_receive(hca, cq, qp, CqeSyndrome.WR_FLUSH_ERR, wqe.index)
    except DmaError as error:
        log.warning("%r: receive queue cannot be flushed: %s", qp, error)


def stop_users(hca: Hca, broken: Collection[Cq]) -> Iterator[bool]:
    """These CQs take no more completions: move the queue pairs that report to them to ERR.

    There may be 2**18 of them: yields for each queue looked at whether it has been stopped.
    A shared receive queue with a CQ of its own reports there as well. It goes to its error state,
    and a queue pair that receives from it stops with its next message, or if it has begun one.
    """
    for srq in list(hca.srqs):
        is_stopped = srq.cq in broken and hca.srqs.get(srq.handle) is srq
        if is_stopped:
            break_srq(hca, srq)
        yield is_stopped
    for qp in list(hca.qps):
        is_stopped = (
            qp.state not in (QpState.RST, QpState.ERR)
            and (qp.scq in broken or qp.rcq in broken or _has_begun_for(qp, broken))
            and hca.qps.get(qp.handle) is qp
        )
        if is_stopped:
            log.warning("%r: to ERR: its CQ takes no completions", qp)
            qp.state = QpState.ERR
            qp.stop_waiting()
            page_faults.cancel(hca, qp)
            raise_qp_event(hca, qp, EventType.WQ_CATAS_ERROR)
            hca.schedule(qp)
        yield is_stopped


def _has_begun_for(qp: Qp, cqs: Collection[Cq]) -> bool:
    """Whether a message has a request of a shared queue that reports to one of these CQs."""
    if qp.kept is None and qp.connection is None:
        return False
    begun = [qp.kept, *(qp.connection.unfinished() if qp.connection is not None else ())]
    return any(one is not None and one.wqe is not None and one.cq in cqs for one in begun)


def fail_receive(hca: Hca, qp: Qp, taken: TakenWqe, syndrome: CqeSyndrome) -> None:
    """Complete a receive WQE in error, unless that has been done."""
    wqe, taken.wqe = taken.wqe, None
    if wqe is not None:
        completions.fail_receive(hca, taken.cq, qp, syndrome, wqe.index, taken.srqn)


def stop_over(hca: Hca, qp: Qp, taken: TakenWqe, syndrome: CqeSyndrome, why: str) -> None:
    """Complete a receive request in error, and stop the queue pair."""
    index = taken.wqe.index if taken.wqe is not None else -1
    log.warning("%r: receive request %d fails: %s", qp, index, why)
    fail_receive(hca, qp, taken, syndrome)
    to_error(hca, qp)

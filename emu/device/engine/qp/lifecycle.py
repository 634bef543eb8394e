"""State changes of a queue pair, by command or by the device itself.

Requests posted to a stopped queue are flushed (``flush.py``). An event notifies the driver
(``events.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from emu.device.engine.events.error_syndromes import Cause, error_word
from emu.device.engine.mr import page_faults
from emu.device.engine.qp.events import break_srq, raise_qp_event
from emu.device.engine.qp.flush import begin_flush, fail_receive, flush
from emu.device.engine.tm import matching, rendezvous, reports
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.page_fault import Side
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_queue import RecvWqe
from emu.device.objects.queues.receive_request import ReceiveRequest
from emu.device.objects.queues.srq import Srq
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType

if TYPE_CHECKING:
    from emu.device.state.completions import Completions
    from emu.device.state.events import Events
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

_CONNECTED: Final = frozenset({QpType.RC, QpType.UC, QpType.XRC})
"""Services with a path of their own; a datagram's path is in its request."""


def break_receives(hca: Hca, qp: Qp, srq: Srq | None, why: Exception) -> None:
    """Move the queue pair to ERR for receive requests that cannot be read.

    Raises WQ_CATAS_ERROR for the queue pair and, once, SRQ_CATAS_ERROR for ``srq``, which is then
    in its error state.
    """
    log.warning("%r: receive queue is broken: %s", qp, why)
    if srq is not None:
        break_srq(hca.events, srq)
    raise_qp_event(hca.events, qp, EventType.WQ_CATAS_ERROR, Cause.RING)
    to_error(hca, qp)


def apply_transition(hca: Hca, qp: Qp, source: QpState) -> None:
    """Apply a context and state that a command has just set; ``source`` is the state before.

    The context is decoded, and a connected service's path resolved. In a new state all timers stop.
    RST cancels page faults, returns receive requests and resets the counters. ERR flushes posted
    requests, RTS schedules a poll. Without a new state only the context is applied.
    """
    qp.decode()
    if qp.st in _CONNECTED:
        path = qp.ctx.primary_address_path
        qp.destination = hca.link.destination(path)
        qp.route = hca.link.global_route(path)
        qp.header_bytes = hca.link.header_bytes(qp.destination, is_global=bool(path.grh))
        qp.marks = hca.link.marks(path)
    if qp.state is source:
        return
    qp.has_failed = False
    if qp.state is not QpState.ERR:
        qp.error_syndrome = None
    qp.stop_waiting()
    if qp.state is QpState.RST:
        qp.has_mmo = False
        stop_paging(hca, qp)
        qp.restart()
    elif qp.state is QpState.ERR:
        page_faults.cancel(hca.probes, hca.clock, qp)
        begin_flush(hca, qp)
    elif qp.state is QpState.RTS:
        hca.scheduler.schedule(qp)


def to_error(hca: Hca, qp: Qp) -> None:
    """Move a queue pair to ERR because of an error that the device found; do nothing in ERR.

    Timers and page faults are cancelled and posted requests flushed, with the cause FAILURE. No
    event is raised here, except SRQ_LAST_WQE of a queue pair on an SRQ.
    """
    if qp.state is not QpState.ERR:
        log.info("%r: to ERR from %s", qp, qp.state.name)
        qp.state, qp.has_failed = QpState.ERR, True
        qp.stop_waiting()
        page_faults.cancel(hca.probes, hca.clock, qp)
        begin_flush(hca, qp)


def to_send_queue_error(hca: Hca, qp: Qp) -> None:
    """Move an unreliable service to SQER: it stops sending and still receives (IBTA 10.3.1.6).

    Posted sends are flushed. The requester's page fault is cancelled, and the responder's stays.
    """
    log.info("%r: to SQER from %s", qp, qp.state.name)
    qp.state, qp.has_failed = QpState.SQER, True
    qp.stop_waiting()
    page_faults.cancel(hca.probes, hca.clock, qp, Side.REQUESTER)
    flush(hca, qp)


def to_drained(events: Events, qp: Qp) -> None:
    """Move to SQD after a signature error (drain_sigerr), and raise SQ_DRAINED.

    The caller has completed the current request. Posted requests stay in the ring.
    """
    log.info("%r: to SQD from %s: signature error", qp, qp.state.name)
    qp.is_draining = False
    qp.state = QpState.SQD
    qp.stop_waiting()
    raise_qp_event(events, qp, EventType.SQ_DRAINED)


def stop_paging(hca: Hca, qp: Qp) -> None:
    """Cancel page faults at a reset, and return unfilled receive requests to their shared queue.

    The matched entry of a tag list is cancelled instead. Requests of the queue pair's own ring are
    forgotten. The adapter's rendezvous are cancelled.
    """
    page_faults.cancel(hca.probes, hca.clock, qp)
    if qp.adapter_requests is not None:
        rendezvous.cancel(hca.cqes, qp)
    for receive in qp.begun_receives():
        srq = hca.srqs.get(receive.srqn)
        if srq is not None and receive.wqe is not None:
            _return(hca.cqes, qp, srq, receive, receive.wqe)
    qp.detach_receives()


def _return(cqes: Completions, qp: Qp, srq: Srq, receive: ReceiveRequest, wqe: RecvWqe) -> None:
    """Return an unfilled receive request to its SRQ, to be taken before those in the ring.

    The matched entry of a tag list is cancelled instead (MSG_COMPLETION_CANCELED). An unexpected
    message is uncounted.
    """
    if receive.arrival is not None and receive.arrival.entry is not None:
        reports.cancel(cqes, qp, srq, receive.arrival.entry)
        return
    if receive.arrival is not None and srq.tags is not None:
        matching.uncount_unexpected(srq.tags, receive.arrival)
    srq.queue.give_back(wqe)


def stop_users(hca: Hca, broken: Collection[Cq]) -> Iterator[bool]:
    """Move the queue pairs that report to broken CQs to ERR; yield once for each queue checked.

    Up to 2**18 queues are checked; the value tells whether the queue was stopped. A stopped queue
    pair raises WQ_CATAS_ERROR and is flushed by its next poll. An SRQ with a broken CQ of its own
    goes to its error state (SRQ_CATAS_ERROR). A queue pair that receives from it stops with its
    next message, or at once if a message has started.
    """
    for srq in list(hca.srqs):
        is_stopped = srq.cq in broken and hca.srqs.get(srq.handle) is srq
        if is_stopped:
            break_srq(hca.events, srq)
        yield is_stopped
    for qp in list(hca.qps):
        is_stopped = (
            qp.state not in (QpState.RST, QpState.ERR)
            and (qp.scq in broken or qp.rcq in broken or _has_started_for(qp, broken))
            and hca.qps.get(qp.handle) is qp
        )
        if is_stopped:
            log.warning("%r: to ERR: its CQ takes no completions", qp)
            qp.state, qp.has_failed = QpState.ERR, True
            qp.stop_waiting()
            page_faults.cancel(hca.probes, hca.clock, qp)
            raise_qp_event(hca.events, qp, EventType.WQ_CATAS_ERROR, Cause.CQ)
            begin_flush(hca, qp, is_deferred=True)
        yield is_stopped


def _has_started_for(qp: Qp, cqs: Collection[Cq]) -> bool:
    """Return whether a message has a request of a shared queue that reports to one of these CQs."""
    return any(receive.cq in cqs for receive in qp.begun_receives())


def fail_receive_and_stop(
    hca: Hca,
    qp: Qp,
    receive: ReceiveRequest,
    syndrome: CqeSyndrome,
    why: str,
    cause: Cause = Cause.ANY,
) -> None:
    """Complete a receive request with ``syndrome``, and move the queue pair to ERR.

    QUERY_QP then reports the error with ``cause``. No event is raised, and no NAK is sent here.
    """
    index = receive.wqe.index if receive.wqe is not None else -1
    log.warning("%r: receive request %d failed: %s", qp, index, why)
    qp.note_error(error_word(CqeOpcode.RESP_ERR, syndrome, cause))
    fail_receive(hca.cqes, hca.srqs, qp, receive, syndrome, cause)
    to_error(hca, qp)

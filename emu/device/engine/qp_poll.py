"""Polls a queue pair: responses, requests, flush.

A message to a queue pair in the same process is one direct call. The call ends in an
acknowledgement or in a case of ``emu.device.objects.queues.outcome``. A table here maps each
outcome to its action: retry later, give up, or fail. The action depends on the queue pair's retry
counts and timers (IBTA 9.7.5, 9.7.6). For a peer in another process
``emu.device.engine.rc.packets.requester`` does the same with packets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from emu.device.engine.mr import page_faults
from emu.device.engine.mr.access_error import AccessError
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp import pacing, send_requests
from emu.device.engine.qp.flush import flush
from emu.device.engine.qp.send_requests import AbsentPage, Failure, complete, parse
from emu.device.engine.rc import dynamic
from emu.device.engine.rc.local import exchange
from emu.device.engine.rc.packets.connection import connection_of
from emu.device.engine.rc.timers import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from emu.device.engine.ud import datagram as ud
from emu.device.engine.ud import delivery
from emu.device.engine.wqe.registry import Work
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.outcome import (
    SYNDROMES,
    Dropped,
    InProgress,
    LocalAccessFailed,
    Nak,
    NeedsPackets,
    Outcome,
    RnrNak,
)
from emu.device.objects.queues.page_fault import PageFault, Side
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import BadWqeError, SendRing, Wqe
from emu.device.port.datagram import Datagram, LargeSend
from emu.device.ports import Clock, DmaError
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.costs import LOG_BYTES_PER_STEP, STEPS_PER_FRAME, STEPS_PER_WQE
from emu.device.rounds.sizes import BYTES_PER_POLL, WQES_PER_POLL
from emu.device.state.hca import Hca
from emu.device.state.parts.scheduler import Scheduler
from emu.device.state.polls import polls
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpState, QpType

log = logging.getLogger(__name__)


_FEW_BYTES: Final = 1 << 16
"""Longest message that is not charged to the round's budget by its length."""

_WQES: Final = range(WQES_PER_POLL)
_RTS: Final = QpState.RTS
_DCI: Final = QpType.DCI


@polls(Qp)
def poll(hca: Hca, qp: Qp) -> bool:
    """Send responses, then requests: directly within this process, else in packets.

    Return whether more can be sent in a later round. Outside RTS, posted requests are flushed
    instead. A draining queue pair without requests in flight moves to SQD. An unreadable ring
    raises WQ_CATAS_ERROR and stops the queue pair.
    """
    more, connection = False, qp.connection
    if connection is not None:
        # Responses are sent even after the queue pair has failed: the NAK is among them.
        responder, pace = connection.responder, qp.response_pace
        if pace is None:
            more = responder.poll()
        else:
            more = pacing.paced(hca.scheduler, hca.clock, qp, pace, responder.poll)
    if qp.state is not _RTS:
        flush(hca, qp)
        return more
    sq = qp.sq
    if sq is None:
        return more
    if qp.is_draining and (connection is None or not connection.is_awaiting):
        qp_life.to_drained(hca.events, qp)
        return more
    try:
        if qp.is_looped:
            node: Hca | None = hca
        else:
            if connection is None:
                address, wire = qp.destination, hca.wire
                node = wire.node(address) if address else None
                if wire.needs_packets(address, node):
                    connection = connection_of(hca, qp)
            if connection is not None:
                requester = connection.requester
                if qp.pace is None:
                    return requester.poll() or more
                return pacing.paced(hca.scheduler, hca.clock, qp, qp.pace, requester.poll) or more
        if qp.timer is not None or qp.held_by is not None:
            return False
        if qp.page_faults and Side.REQUESTER in qp.page_faults:
            return False
        if qp.pace is not None:
            return pacing.paced(
                hca.scheduler, hca.clock, qp, qp.pace, partial(_send_requests, hca, qp, sq, node)
            )
        return _send_requests(hca, qp, sq, node)
    except (BadWqeError, DmaError) as error:
        send_requests.break_queue(hca, qp, error)
        return more


def _send_requests(hca: Hca, qp: Qp, sq: SendRing, node: Hca | None) -> bool:
    """Process some of the requests that need no packets; return whether more can be sent now.

    ``node`` is the peer's function, None when it is in another process. A request that succeeds is
    completed. Any other outcome runs its action of ``_ACTIONS``: wait, retry, move another segment
    later, or fail. Return False then, when the ring is empty, and when the queue pair waits or has
    stopped. Raises BadWqeError or DmaError for a ring that cannot be read.
    """
    budget, left = hca.budget, BYTES_PER_POLL
    own, pace, moving = qp.adapter_requests, qp.pace, qp.moving
    waiting = sq.waiting()
    budget.charge(STEPS_PER_WQE * (waiting if waiting < WQES_PER_POLL else WQES_PER_POLL))
    for _ in _WQES:
        work: Work | Outcome
        if moving is not None and moving.wqe is not None:  # a message before the first request
            wqe, work, moving = moving.wqe, moving, None
        else:
            if own is not None and (first := own.next()) is not None:
                wqe = first
            elif waiting > 0:
                wqe = sq.fetch(waiting)
            else:
                return False
            work = parse(hca, qp, wqe)
        if isinstance(work, Message):
            sent = work.length
            if qp.st is not _DCI:
                outcome = exchange(hca, qp, node, wqe, work)
            else:
                outcome = dynamic.exchange(hca, qp, wqe, work)
        elif work is None:  # local and done
            outcome, sent = None, 0
        else:
            outcome, sent = _send_datagrams(hca, qp, work)
        if own is not None:
            own.is_ring_first = outcome is not None and bool(wqe.blocks)
        if outcome is not None:
            _ACTIONS[type(outcome)](hca, qp, wqe, outcome)
            return False
        # A failed queue pair that is its own peer has already flushed this request.
        if qp.state is not _RTS or not complete(hca, qp, wqe, sent):
            return False
        waiting -= wqe.blocks
        if pace is not None:
            now_ns = hca.clock.now_ns()
            pace.sent(sent + qp.header_bytes, now_ns)
            if not pace.may_go_on(now_ns):
                return True
        if sent > _FEW_BYTES:
            left -= sent
            budget.charge(sent >> LOG_BYTES_PER_STEP)
            if left < 0:
                return True
        if waiting <= 0 and own is None:  # later requests ring their own doorbell
            return False
        if budget.steps > POLL_BUDGET:
            return True
    return True


def _send_datagrams(
    hca: Hca, qp: Qp, work: Datagram | LargeSend | Outcome
) -> tuple[Outcome | None, int]:
    """Send the datagrams of a request; return its outcome, None if it is done, and its bytes.

    The outcome of a request that has failed before is returned unchanged.
    """
    if isinstance(work, Datagram):
        delivery.send(hca, work, ud.origin_of(hca.link, qp, work.to))
        return None, work.length
    if isinstance(work, LargeSend):
        return None, _send_large(hca, qp, work)
    return work, 0


def _send_large(hca: Hca, qp: Qp, work: LargeSend) -> int:
    """Send all datagrams of a large send, charge the budget, and return the sum of their bytes."""
    length = 0
    origin = ud.origin_of(hca.link, qp, work.datagrams[0].to)
    for one in work.datagrams:
        hca.budget.charge(STEPS_PER_FRAME)
        delivery.send(hca, one, origin)
        length += one.length
    return length


def _wait_for_page(hca: Hca, qp: Qp, wqe: Wqe, absent: AbsentPage) -> None:
    """Suspend the requester for a page fault of its own; keep the request in the ring.

    The driver's resume schedules the queue pair again. A resume with error fails the request with
    the syndrome of the failed access.
    """
    page = absent.error
    failure = Failure.of_access(page, wqe.opcode)

    def refuse(why: str) -> None:
        send_requests.fail(hca, qp, wqe, Failure(failure.syndrome, why, failure.cause))

    done = 0 if qp.moving is None else qp.moving.done
    access = page_faults.request_access(qp, wqe, done)
    fault = page_faults.suspend(hca, qp, Side.REQUESTER, access, page, refuse)
    fault.wait(lambda _: hca.scheduler.schedule(qp))


def _wait_for_peer(hca: Hca, qp: Qp, wqe: Wqe, fault: PageFault) -> None:
    """Wait while the peer waits for a page: no timeout runs and no retry is counted.

    When the wait ends, the request is retried, or fails if the peer answers with a NAK.
    """
    lifetime = hca.lifetime

    def retry(answer: Outcome | None) -> None:
        if lifetime.is_over:
            return
        if isinstance(answer, Nak):  # still in RTS: a stopped queue pair releases the page fault
            _fail_by_peer(hca, qp, wqe, answer)
        else:
            hca.scheduler.schedule(qp)

    fault.wait(retry, qp)


def _fail_by_peer(hca: Hca, qp: Qp, wqe: Wqe, nak: Nak) -> None:
    """Fail the request with the syndrome of the peer's NAK; do nothing unless in RTS."""
    if qp.state is _RTS:
        send_requests.fail(hca, qp, wqe, Failure(SYNDROMES[nak.code], f"peer: {nak.why}"))


def _fail_to_place(hca: Hca, qp: Qp, wqe: Wqe, reply_error: LocalAccessFailed) -> None:
    assert isinstance(reply_error.error, AccessError)
    send_requests.fail(hca, qp, wqe, Failure.of_access(reply_error.error, wqe.opcode))


def _wait_for_receiver(hca: Hca, qp: Qp, wqe: Wqe, nak: RnrNak) -> None:
    """Count rnr_nak_retry_err; retry after the time in the RNR NAK (IBTA 9.7.5.2.8).

    Without a retry left, the request fails with RNR_RETRY_EXC_ERR.
    """
    qp.count("rnr_nak_retry_err")
    if send_requests.count_rnr_retry(qp):
        _again_after(hca.scheduler, hca.clock, qp, RNR_NAK_NS[nak.timer])
    else:
        why = f"{qp.rnr_retries} retries"
        send_requests.fail(hca, qp, wqe, Failure(CqeSyndrome.RNR_RETRY_EXC_ERR, why))


def _wait_for_answer(hca: Hca, qp: Qp, wqe: Wqe, dropped: Dropped) -> None:
    """Retry a request without response after the ACK timeout, counting local_ack_timeout_err.

    Without a retry left, the request fails with TRANSPORT_RETRY_EXC_ERR (IBTA 9.7.6.1). An ACK
    timeout of 0 starts no timer: the next doorbell retries the request.
    """
    if not qp.ack_timeout:
        log.info(
            "%r: no response (%s); without an ACK timeout, retry at the next doorbell",
            qp,
            dropped.why,
        )
        return

    def over() -> None:
        qp.timer = None
        qp.count("local_ack_timeout_err")
        if send_requests.count_retry(qp):
            hca.scheduler.schedule(qp)
        else:
            why = Failure(CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, dropped.why)
            send_requests.fail(hca, qp, wqe, why)

    qp.timer = hca.clock.call_later(ACK_TIMEOUT_UNIT_NS << qp.ack_timeout, over)


def _again_after(scheduler: Scheduler, clock: Clock, qp: Qp, delay_ns: int) -> None:
    """Schedule the queue pair after ``delay_ns``; its requests wait until then."""

    def again() -> None:
        qp.timer = None
        scheduler.schedule(qp)

    qp.timer = clock.call_later(delay_ns, again)


def _go_on(hca: Hca, qp: Qp, _wqe: Wqe, _: InProgress) -> None:
    """Poll again: the message has more segments."""
    hca.scheduler.schedule(qp)


def _need_packets(hca: Hca, qp: Qp, _wqe: Wqe, _: NeedsPackets) -> None:
    """Create the connection that sends packets, used from the next poll on until a reset."""
    connection_of(hca, qp)
    hca.scheduler.schedule(qp)


_ACTIONS: Final[Mapping[type[Outcome], Callable[[Hca, Qp, Wqe, Any], None]]] = {
    Failure: send_requests.fail,
    AbsentPage: _wait_for_page,
    PageFault: _wait_for_peer,
    Nak: _fail_by_peer,
    LocalAccessFailed: _fail_to_place,
    RnrNak: _wait_for_receiver,
    Dropped: _wait_for_answer,
    InProgress: _go_on,
    NeedsPackets: _need_packets,
}
"""Action for each outcome of an incomplete request."""

"""Check resource: takes, fills and completes receive WQEs of connected services.

IBTA 9.7.4.1, 10.8.3; rxe_resp.c: check_resource. A WQE is from the queue pair's own receive queue
or from a shared one; on XRC the message names the shared one (IBTA annex A14). A WQE that cannot
hold its message completes in error, and its queue pair stops.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import completions
from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.mr import page_faults
from emu.device.engine.mr.access import segment_views
from emu.device.engine.mr.access_error import ABSENT_PAGE, TOO_FRAGMENTED, AccessError
from emu.device.engine.mr.checks import is_for, is_type_2a
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp.events import check_shared, check_srq_limit, take_shared
from emu.device.engine.rc.checks import RxCheck, invalid_request, trace_refusal
from emu.device.engine.tm import matching
from emu.device.objects.domains import Pd
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.outcome import Dropped, Nak, NakCode, Outcome, RnrNak, TooFragmented
from emu.device.objects.queues.page_fault import FaultedAccess, PageFaultType, Side
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_queue import ListBrokenError, RecvQueue, recv_wqe
from emu.device.objects.queues.receive_request import ReceiveRequest, receive_request
from emu.device.objects.queues.srq import Srq
from emu.device.objects.queues.tag_list import TagEntry, TagList, TagMatch
from emu.device.ports import DmaError
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpType
from layouts.rings.cqe import CQE_BYTES, SCATTER_32_BYTES
from layouts.rings.tag_matching import TmAppOp

if TYPE_CHECKING:
    from emu.device.objects.queues.cq import Cq
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

_UC: Final = QpType.UC
_NO_NAK: Final = Dropped("UC has no NAK")
_TOO_LONG: Final = Dropped("UC message longer than its receive request")
_PROTECTION: Final = CqeSyndrome.LOCAL_PROT_ERR, NakCode.REMOTE_OPERATIONAL_ERROR
"""Errors for unusable memory of the receiver."""
_TOO_SHORT: Final = CqeSyndrome.LOCAL_LENGTH_ERR, NakCode.INVALID_REQUEST
"""Errors for a receive WQE that is shorter than the message."""
_XRC: Final = QpType.XRC
_WITHOUT_REFERENCE: Final = frozenset({QpType.XRC, QpType.DCT})
_SEND: Final = MsgOp.SEND
_WRITE: Final = MsgOp.WRITE
_RESP_SEND: Final = CqeOpcode.RESP_SEND
_RESP_SEND_IMM: Final = CqeOpcode.RESP_SEND_IMM
_RESP_SEND_INV: Final = CqeOpcode.RESP_SEND_INV
_RESP_WR_IMM: Final = CqeOpcode.RESP_WR_IMM


def check_resource(hca: Hca, qp: Qp, message: Message) -> Outcome | None:
    """Take a receive WQE into ``message.receive``: from the QP's queue, its SRQ or its tag list.

    Returns RnrNak for an empty queue (out_of_buffer is counted), on UC Dropped. Without a receive
    queue the result is that of ``invalid_request``. An unreadable queue moves the queue pair to ERR
    with WQ_CATAS_ERROR: Nak (REMOTE_OPERATIONAL_ERROR), on UC Dropped. A WQE that was set aside is
    reused first, or returned to its queue if that is another SRQ. The SRQ's limit event may be
    raised.
    """
    srq = qp.srq
    if qp.st is _XRC:
        named = shared_queue(hca, qp, message)
        if isinstance(named, Outcome):
            return named
        srq = named
    queue: RecvQueue | None
    if srq is None:
        queue, cq, srqn = qp.rq, qp.rcq, 0
    else:
        queue, cq, srqn = srq.queue, srq.cq or qp.rcq, srq.handle
    if queue is None or cq is None:
        return invalid_request(hca, qp, RxCheck.RESOURCE, "no receive queue")
    kept = qp.waiting_receive
    if kept is not None:
        qp.waiting_receive = None
        if kept.wqe is not None and kept.srqn == srqn:
            # The message has waited for a page and is repeated.
            message.receive = kept
            return None
        give_back(hca.srqs, kept)
    arrival: TagMatch | None = None
    try:
        if srq is None:
            wqe = queue.take()
        else:
            if srq.tags is not None:
                arrival = _matched(hca, qp, srq, srq.tags, message)
                if arrival.entry is not None:
                    message.receive = _matched_request(arrival, arrival.entry, srq, cq)
                    return None
            wqe = take_shared(srq)
    except (DmaError, ListBrokenError) as error:
        trace_refusal(hca.probes, qp, RxCheck.RESOURCE, str(error))
        qp_life.break_receives(hca, qp, srq, error)
        return _NO_NAK if qp.st is _UC else Nak(NakCode.REMOTE_OPERATIONAL_ERROR)
    if wqe is None:
        qp.count("out_of_buffer")
        trace_refusal(hca.probes, qp, RxCheck.RESOURCE, "no receive WQE")
        return Dropped("UC without a receive WQE") if qp.st is _UC else RnrNak(qp.min_rnr_nak)
    if srq is not None:
        check_srq_limit(hca.events, srq)
        if arrival is not None and srq.tags is not None:
            matching.count_unexpected(srq.tags, arrival)
    message.receive = receive_request(wqe, cq, srqn, arrival)
    return None


def _matched(hca: Hca, qp: Qp, srq: Srq, tags: TagList, message: Message) -> TagMatch:
    """Return a message's match at a tag matching queue; a SEND takes the matching entry.

    A WRITE is always NO_TAG. Raises ListBrokenError for a queue in its error state.
    """
    check_shared(srq)
    if message.op is not _SEND:
        return TagMatch(TmAppOp.NO_TAG)
    return matching.arrive(hca, qp, srq, tags, message)


def _matched_request(arrival: TagMatch, entry: TagEntry, srq: Srq, cq: Cq) -> ReceiveRequest:
    """Return a tagged buffer as a receive request."""
    return receive_request(recv_wqe(entry.index, entry.segments, srq.pd), cq, srq.handle, arrival)


def track_at_srq(srqs: Table[Srq], qp: Qp, message: Message) -> None:
    """Track the receive WQE of a message that continues later, at its SRQ.

    If the SRQ is destroyed meanwhile, the WQE is detached and never completes. Has an effect only
    on XRC and DC: any other queue pair holds a reference to its queue.
    """
    receive = message.receive
    if qp.st in _WITHOUT_REFERENCE and receive is not None and receive.wqe is not None:
        srqs.need(receive.srqn).track_in_flight(receive)


def give_back(srqs: Table[Srq], receive: ReceiveRequest) -> None:
    """Return a WQE that was set aside to its XRC SRQ, as the next message names another one.

    Does nothing if the SRQ was destroyed, or the WQE is complete.
    """
    wqe, receive.wqe = receive.wqe, None
    if wqe is not None:
        srqs.need(receive.srqn).queue.give_back(wqe)


def set_aside(srqs: Table[Srq], qp: Qp, message: Message) -> None:
    """Store the message's receive WQE as ``qp.waiting_receive``.

    The next ``check_resource`` for the same queue reuses it; ERR flushes it.
    """
    qp.waiting_receive = message.receive
    track_at_srq(srqs, qp, message)


def shared_queue(hca: Hca, qp: Qp, message: Message) -> Srq | Outcome | None:
    """Return the SRQ that a message is for; None for the queue pair's own queue.

    On XRC the message names the SRQ. If the domain has no such SRQ, the queue pair goes to ERR and
    the result is that of ``invalid_request``.
    """
    if qp.st is not _XRC:
        return qp.srq
    srq = named_queue(hca.srqs, qp, message)
    return (
        invalid_request(hca, qp, RxCheck.RESOURCE, f"no XRC SRQ {message.srqn:#x} in the domain")
        if srq is None
        else srq
    )


def named_queue(srqs: Table[Srq], qp: Qp, message: Message) -> Srq | None:
    """Return the SRQ that an XRC message names; None if its queue pair's domain has no such SRQ."""
    srq = srqs.get(message.srqn)
    return srq if srq is not None and srq.xrcd is qp.xrcd else None


def scatter_to(
    hca: Hca, qp: Qp, receive: ReceiveRequest, offset: int, length: int
) -> Views | Outcome:
    """Return the memory for ``length`` bytes, ``offset`` bytes into a receive WQE's scatter list.

    Unusable memory fails the WQE with LOCAL_PROT_ERR, NAK REMOTE_OPERATIONAL_ERROR; a message too
    long with LOCAL_LENGTH_ERR, NAK INVALID_REQUEST. Both move the queue pair to ERR. UC drops a
    message too long for the queue pair's own WQE, and the next message gets that WQE (rxe_resp.c:
    RESPST_ERR_LENGTH; IBTA 9.9.3). Returns a PageFault when a page is absent, TooFragmented
    for a range that is too much for one call.
    """
    wqe = receive.wqe
    assert wqe is not None
    try:
        views, left = segment_views(
            hca, wqe.pd, qp.handle, wqe.segments, (offset, length, LOCAL_WRITE)
        )
    except AccessError as error:
        if error.violation is TOO_FRAGMENTED:
            return TooFragmented(error.limit, str(error))
        if error.violation is ABSENT_PAGE:
            return _wait_for_page(hca, qp, receive, offset, length, error)
        return fail_receive_and_nak(
            hca, qp, receive, RxCheck.EXECUTE, *_PROTECTION, str(error), error.cause
        )
    if left:
        if qp.st is _UC and not receive.srqn:
            return _TOO_LONG
        why = f"message of {offset + length} bytes or more is {left} too long"
        return fail_receive_and_nak(hca, qp, receive, RxCheck.LENGTH, *_TOO_SHORT, why)
    return views


def scatters(qp: Qp, message: Message, length: int) -> bool:
    """Return whether the CQE stores ``length`` bytes, at most cs_res, instead of memory.

    The bytes must be all of a SEND, and the CQ's entries must be large enough. False for a message
    of a tag matching queue, whose CQE has the tag's fields there.
    """
    receive = message.receive
    if message.op is not _SEND or not length or length != message.length or receive is None:
        return False
    if receive.arrival is not None:
        return False  # the completion has the tag's fields there
    return qp.cs_res <= SCATTER_32_BYTES or receive.cq.stride > CQE_BYTES


def _wait_for_page(
    hca: Hca, qp: Qp, receive: ReceiveRequest, offset: int, length: int, page: AccessError
) -> Outcome:
    """Return a PageFault: the responder waits for a page of a receive WQE.

    ``length`` bytes are to be placed there, after the ``offset`` bytes that it has. A tagged
    buffer, or a function without this ODP capability, does not wait: the WQE fails with
    LOCAL_PROT_ERR, and the queue pair goes to ERR. The same happens if the driver refuses the page.
    """
    wqe, srqn = receive.wqe, receive.srqn
    assert wqe is not None

    def refuse(why: str) -> Outcome:
        return fail_receive_and_nak(
            hca, qp, receive, RxCheck.EXECUTE, *_PROTECTION, why, Cause.MEMORY
        )

    is_tagged = receive.arrival is not None and receive.arrival.entry is not None
    if is_tagged or not page_faults.may_wait(
        hca.events, hca.caps, qp, "srq_receive" if srqn else "receive"
    ):
        return refuse(str(page))  # drivers search the queue for the request

    kind = PageFaultType.SHARED_RECEIVE if srqn else PageFaultType.RECEIVE
    packet = min(length, qp.mtu_bytes)
    what = FaultedAccess(kind, packet, srqn or qp.handle, wqe.index, committed=offset)
    return page_faults.suspend(hca, qp, Side.RESPONDER, what, page, refuse)


def invalidate(
    hca: Hca, qp: Qp, pd: Pd | None, rkey: int, receive: ReceiveRequest
) -> Outcome | None:
    """Invalidate the key of a SEND with invalidate; return None if this queue pair may do it.

    Otherwise the key stays unchanged, the receive WQE completes with LOCAL_ACCESS_ERR, and the
    queue pair goes to ERR. The result is then Dropped (IBTA 9.9.6.3, class J; rxe_resp.c:
    RESPST_ERR_INVALIDATE_RKEY): the requester's timeout ends its request. See IBTA 9.4.1.1.3.
    """
    mkey = hca.mkeys.get(rkey >> 8)
    if mkey is None or mkey.variant != rkey & 0xFF:
        why = "no such key"
    elif mkey.pd is not pd and not is_type_2a(hca.qps, hca.options, mkey, qp.handle):
        why = "the key is of another protection domain"
    elif mkey.free or not mkey.en_rinval or not is_for(hca.qps, mkey, qp.handle):
        why = "the key does not allow invalidation by this queue pair"
    else:
        mkey.invalidate()
        return None
    why = f"invalidate {rkey:#x}: {why}"
    trace_refusal(hca.probes, qp, RxCheck.EXECUTE, why)
    qp_life.fail_receive_and_stop(hca, qp, receive, CqeSyndrome.LOCAL_ACCESS_ERR, why)
    return Dropped(why)


def fail_receive_and_nak(
    hca: Hca,
    qp: Qp,
    receive: ReceiveRequest,
    check: RxCheck,
    syndrome: CqeSyndrome,
    code: NakCode,
    why: str,
    cause: Cause = Cause.ANY,
) -> Outcome:
    """Complete a receive WQE in error after ``check``, move the queue pair to ERR, return a Nak.

    ``syndrome`` and ``cause`` are for the owner's completion, ``code`` and ``why`` for the sender's
    NAK. On UC the queue pair also goes to ERR, but the result is Dropped.
    """
    trace_refusal(hca.probes, qp, check, why)
    qp_life.fail_receive_and_stop(hca, qp, receive, syndrome, why, cause)
    return _NO_NAK if qp.st is _UC else Nak(code, why)


def refuse_scattered(hca: Hca, qp: Qp, receive: ReceiveRequest, why: str) -> Outcome:
    """Fail a receive WQE with LOCAL_PROT_ERR because the memory of a packet is too scattered.

    Returns Nak (REMOTE_OPERATIONAL_ERROR), on UC Dropped; the queue pair goes to ERR.
    """
    why = f"memory too scattered: {why}"
    return fail_receive_and_nak(hca, qp, receive, RxCheck.EXECUTE, *_PROTECTION, why, Cause.MEMORY)


def complete_receive(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    """Write the CQE of the receive WQE that a message has filled, and detach the WQE.

    The CQE is RESP_WR_IMM, RESP_SEND_INV, RESP_SEND_IMM or RESP_SEND. A message of a tag matching
    queue is completed by ``matching.complete`` instead. The caller has checked that the message has
    a WQE.
    """
    receive = message.receive
    assert receive is not None
    wqe, receive.wqe = receive.wqe, None
    assert wqe is not None
    immediate = message.immediate
    if immediate is not None:
        opcode = _RESP_WR_IMM if message.op is _WRITE else _RESP_SEND_IMM
    elif message.inv_rkey is not None:
        immediate, opcode = message.inv_rkey, _RESP_SEND_INV
    else:
        immediate, opcode = 0, _RESP_SEND
    if receive.arrival is not None:
        matching.complete(
            hca.cqes, hca.scheduler, qp, message, receive.arrival, wqe.index, opcode, slid
        )
        return
    received = (
        wqe.index, message.length, receive.srqn, immediate, qp.remote_qpn, slid,
        message.solicited, 0,
    )  # fmt: skip
    data = message.scattered if qp.cs_res else None
    completions.complete_receive(hca.cqes, hca.srqs, receive.cq, qp, opcode, received, data)

"""Send requests: parsed from the send queue, and completed or failed at the end.

The direct requester and the packet requester share this code.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from emu.device.engine.events.completions import complete_send, fail_send
from emu.device.engine.events.error_syndromes import SCATTER, Cause, error_word
from emu.device.engine.mr import page_faults
from emu.device.engine.mr.access_error import ABSENT_PAGE, TOO_FRAGMENTED, AccessError
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp.events import raise_qp_event
from emu.device.engine.tm import rendezvous
from emu.device.engine.wqe import messages
from emu.device.engine.wqe.atomic import in_completion
from emu.device.engine.wqe.key_options import BindError
from emu.device.engine.wqe.registry import WQE_OPS, Work
from emu.device.objects.memory.rights import LOCAL_READ, LOCAL_WRITE
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.message import ATOMICS, Message, MsgOp
from emu.device.objects.queues.outcome import Outcome, TooFragmented
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.queue import Queue
from emu.device.objects.queues.send_queue import COUNTER_MASK, BadWqeError, Wqe
from emu.device.state.points import FaultPoint
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.events import Events
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

_operation_of: Final = WQE_OPS.get
CE_MASK: Final = 0b11 << 2
CE_ALWAYS: Final = 0b10 << 2
INFINITE_RETRIES: Final = 7
_READ: Final = MsgOp.READ
_RTS: Final = QpState.RTS
_BAD: Final = CqeSyndrome.LOCAL_QP_OP_ERR
_FETCHING: Final = frozenset(
    {
        Opcode.RDMA_READ, Opcode.ATOMIC_CS, Opcode.ATOMIC_FA, Opcode.ATOMIC_MASKED_CS,
        Opcode.ATOMIC_MASKED_FA,
    }
)  # fmt: skip
"""Requests whose memory stores the response."""
_SCATTERED: Final = frozenset({MsgOp.READ, MsgOp.COMPARE_SWAP, MsgOp.FETCH_ADD})
"""Requests whose responses libraries copy from completions (libmlx5: mlx5_copy_to_send_wqe)."""
_STOPPED_BY_ERRORS: Final = frozenset({QpType.RC, QpType.XRC, QpType.DCI, QpType.REG_UMR})


class Failure(Outcome):
    """Request that fails at the requester; ``syndrome`` and ``cause`` are for its completion."""

    __slots__ = ("cause", "syndrome", "why")

    def __init__(self, syndrome: CqeSyndrome, why: str, cause: Cause = Cause.ANY) -> None:
        self.syndrome = syndrome
        self.why = why
        self.cause = cause

    @classmethod
    def of_access(cls, error: AccessError, opcode: int = 0) -> Failure:
        """Return the failure of a request for unusable memory of the requester: LOCAL_PROT_ERR.

        ``opcode`` selects the cause: a READ or atomic could not store its response (SCATTER_*).
        """
        cause = SCATTER[error.cause] if opcode in _FETCHING else error.cause
        return cls(CqeSyndrome.LOCAL_PROT_ERR, str(error), cause)


WQE_POINT: Final[FaultPoint[[Queue, Wqe], Failure | None]] = FaultPoint("wqe")


class AbsentPage(Outcome):
    """Absent page of the requester's own memory, for which the request may wait."""

    __slots__ = ("error",)

    def __init__(self, error: AccessError) -> None:
        self.error = error


def parse(hca: Hca, qp: Qp, wqe: Wqe) -> Work | Outcome:
    """Return the work that the WQE requests; None when it is local and already executed.

    Returns AbsentPage when the request may wait for the page, else a Failure. LOCAL_QP_OP_ERR: an
    unsupported or malformed WQE. LOCAL_PROT_ERR: a key or its memory. MW_BIND_ERR: a refused UMR.
    LOCAL_LENGTH_ERR: a message above log_msg_max, or a datagram above the MTU. WR_FLUSH_ERR: a
    failed DCI stream. A fault plan may replace the result. The ring is unchanged.
    """
    probes = hca.probes
    if probes.tracer:
        probes.tracer.wqe(hca.mkeys, qp, wqe)
    if (
        probes.faults is not None
        and (planned := probes.faults.show(WQE_POINT, qp, wqe)) is not None
    ):
        return planned
    operation = _operation_of((wqe.opcode, qp.st))
    if operation is None:
        return Failure(_BAD, f"opcode {wqe.opcode:#x} is not supported on {qp.st.name}")
    if not wqe.ds:
        return Failure(_BAD, "ds is 0 or exceeds the posted WQEBBs")
    if wqe.qpn != qp.handle:
        return Failure(_BAD, f"WQE is for qpn {wqe.qpn:#x}")
    if qp.streams is not None and qp.streams.has_failed(wqe.buf):
        return Failure(CqeSyndrome.WR_FLUSH_ERR, "the DCI stream has failed", Cause.FAILURE)
    try:
        work = operation(hca, qp, wqe)
    except AccessError as no_access:
        return _not_accessible(hca.events, hca.caps, qp, wqe, no_access)
    except BindError as refused:
        return Failure(CqeSyndrome.MW_BIND_ERR, str(refused), refused.cause)
    except BadWqeError as bad:
        return Failure(_BAD, str(bad))
    if work is not None:
        if work.length > qp.max_message:
            why = f"{work.length} bytes, at most {qp.max_message}"
            return Failure(CqeSyndrome.LOCAL_LENGTH_ERR, why)
        if qp.cs_req and isinstance(work, Message) and 0 < work.length <= qp.cs_req:
            _scatter(qp, wqe, work)
    return work


def _scatter(qp: Qp, wqe: Wqe, message: Message) -> None:
    """Direct a READ's or atomic's short response to the request's CQE, if it has one.

    Otherwise leave the message unchanged: the response goes to memory.
    """
    if message.op in _SCATTERED and wqe.fm_ce_se & CE_MASK == CE_ALWAYS:
        wqe.scattered = bytearray(qp.cs_req)
        message.reply = (memoryview(wqe.scattered)[: message.length],)
        if message.op in ATOMICS:
            message.old_value = in_completion(message.length)


def memory_of(hca: Hca, qp: Qp, wqe: Wqe, message: Message, length: int) -> Views | Outcome:
    """Return the requester's memory for the next ``length`` bytes of a message.

    The memory is written for a READ, read for other messages. Returns TooFragmented when the range
    is too scattered for one call, AbsentPage when the request may wait for a page, else a Failure
    with LOCAL_PROT_ERR.
    """
    need = LOCAL_WRITE if message.op is _READ else LOCAL_READ
    try:
        return messages.memory_of(hca, qp, wqe, message, need, message.done, length)
    except AccessError as error:
        if error.violation is TOO_FRAGMENTED:
            return TooFragmented(error.limit)
        return _not_accessible(hca.events, hca.caps, qp, wqe, error)


def _not_accessible(events: Events, caps: Caps, qp: Qp, wqe: Wqe, error: AccessError) -> Outcome:
    """Return AbsentPage when the request may wait for the page, else its LOCAL_PROT_ERR."""
    if error.violation is ABSENT_PAGE and page_faults.request_may_wait(events, caps, qp, wqe):
        return AbsentPage(error)
    return Failure.of_access(error, wqe.opcode)


def complete(hca: Hca, qp: Qp, wqe: Wqe, length: int) -> bool:
    """Remove a request that is done from the ring; write its CQE if the WQE requests one.

    Return whether the queue pair may send further requests. A request of the adapter itself has no
    CQE: its rendezvous continues. After a signature error with drain_sigerr the queue pair moves to
    SQD, once all requests are complete whose packets have left.
    """
    qp.moving = None
    if not wqe.blocks:
        rendezvous.done(hca.cqes, hca.scheduler, qp, wqe)
        return qp.state is _RTS
    sq = qp.sq
    assert sq is not None
    sq.ci = sq.ci + wqe.blocks & COUNTER_MASK  # ``consume``, without a call
    if wqe.fm_ce_se & CE_MASK == CE_ALWAYS:
        cq = qp.scq
        assert cq is not None
        complete_send(hca.cqes, cq, qp, wqe, length)
    if qp.is_draining and (qp.connection is None or not qp.connection.is_awaiting):
        qp_life.to_drained(hca.events, qp)
    return qp.state is _RTS


def fail(hca: Hca, qp: Qp, wqe: Wqe, failure: Failure) -> None:
    """Complete the request with the failure's syndrome, and stop the queue pair.

    RC, XRC, DCI and REG_UMR go to ERR, other services to SQER. On a DCI with streams only the WQE's
    stream fails, until too many have. A failed request of the adapter itself has no CQE and moves
    the queue pair to ERR. The CQE is written even if the WQE requests none.
    """
    syndrome = failure.syndrome
    qp.note_error(error_word(CqeOpcode.REQ_ERR, syndrome, failure.cause))
    if not wqe.blocks:
        log.warning("%r: rendezvous: %s: %s", qp, syndrome.name, failure.why)
        qp_life.to_error(hca, qp)
        return
    log.warning("%r: wqe %d: %s: %s", qp, wqe.index, syndrome.name, failure.why)
    assert qp.sq is not None
    assert qp.scq is not None
    qp.sq.consume(wqe.blocks)
    fail_send(hca.cqes, qp.scq, qp, syndrome, wqe.index, wqe.opcode, failure.cause)
    if qp.streams is not None and qp.streams.fail(wqe.buf):
        qp.stop_waiting()
        hca.scheduler.schedule(qp)
    elif qp.st in _STOPPED_BY_ERRORS:
        qp_life.to_error(hca, qp)
    else:
        qp_life.to_send_queue_error(hca, qp)


def break_queue(hca: Hca, qp: Qp, why: Exception) -> None:
    """Move a queue pair with an unreadable send ring to ERR, and raise WQ_CATAS_ERROR.

    No completion can name the failed request.
    """
    log.warning("%r: send queue is broken: %s", qp, why)
    raise_qp_event(hca.events, qp, EventType.WQ_CATAS_ERROR, Cause.RING)
    qp_life.to_error(hca, qp)


def count_retry(qp: Qp) -> bool:
    """Count a retry after a timeout or a sequence error; return False when none is left.

    The limit is retry_count. Progress resets the count. The caller retransmits, or fails the
    request.
    """
    if qp.retries >= qp.retry_count:
        return False
    qp.retries += 1
    return True


def count_rnr_retry(qp: Qp) -> bool:
    """Count a retry after an RNR NAK; return False when none is left.

    The limit is rnr_retry; 7 means infinite, without a count. The caller waits, or fails the
    request.
    """
    if qp.rnr_retry == INFINITE_RETRIES:
        return True
    if qp.rnr_retries >= qp.rnr_retry:
        return False
    qp.rnr_retries += 1
    return True

"""Send requests: parsed from the send queue, and completed or failed at the end.

The direct requester and the packet requester share this code.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from emu.device.engine.events import completions
from emu.device.engine.events.vendor_syndromes import Cause
from emu.device.engine.mr import page_faults
from emu.device.engine.mr.rights import (
    LOCAL_READ,
    LOCAL_WRITE,
    AbsentPageError,
    AccessError,
    InPieces,
    Violation,
)
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp.events import raise_qp_event
from emu.device.engine.wqe.registry import WQE_OPS, gather_piece
from emu.device.engine.wqe.umr import BindError
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.queue import Queue
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.port.datagram import Datagram
from emu.device.state.points import FaultPoint
from layouts.enums import CqeSyndrome, EventType, Opcode, QpType

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

WQE_POINT: FaultPoint[[Queue, Wqe], None] = FaultPoint("wqe")

CE_MASK = 0b11 << 2
CE_ALWAYS = 0b10 << 2
INFINITE_RETRIES = 7
_READ = MsgOp.READ
_FETCHING = frozenset(
    {
        Opcode.RDMA_READ, Opcode.ATOMIC_CS, Opcode.ATOMIC_FA, Opcode.ATOMIC_MASKED_CS,
        Opcode.ATOMIC_MASKED_FA,
    }
)  # fmt: skip
"""Requests whose memory takes what comes back."""
_STOPPED_BY_ERRORS = frozenset({QpType.RC, QpType.XRC, QpType.DCI, QpType.REG_UMR})


_CAUSES = {
    Violation.NO_KEY: Cause.KEY,
    Violation.FREE: Cause.KEY,
    Violation.DOMAIN: Cause.KEY,
    Violation.RIGHTS: Cause.KEY,
    Violation.BOUNDS: Cause.BOUNDS,
    Violation.TRANSLATION: Cause.MEMORY,
    Violation.DEPTH: Cause.MEMORY,
}


class LocalError(Exception):
    """A request fails at the requester; ``syndrome`` and ``cause`` go to its completion."""

    def __init__(self, syndrome: CqeSyndrome, why: str, cause: Cause = Cause.ANY) -> None:
        super().__init__(why)
        self.syndrome = syndrome
        self.cause = cause

    @classmethod
    def of_access(cls, error: AccessError, opcode: int = 0) -> LocalError:
        """The requester's own memory cannot be used, by a request with this opcode."""
        if opcode in _FETCHING:
            cause = Cause.SCATTER
        elif isinstance(error, AbsentPageError):
            cause = Cause.MEMORY
        else:
            cause = _CAUSES[error.violation]
        return cls(CqeSyndrome.LOCAL_PROT_ERR, str(error), cause)


def parse(hca: Hca, qp: Qp, wqe: Wqe) -> Message | Datagram | None:
    """What the WQE asks for; None when it is local and already done.

    Raises LocalError, and AbsentPageError when the request may wait for the page.
    """
    if hca.tracer:
        hca.tracer.wqe(hca, qp, wqe)
    if hca.faults is not None:
        hca.faults.show(WQE_POINT, qp, wqe)
    operation = WQE_OPS.get((wqe.opcode, qp.st))
    if operation is None:
        raise LocalError(
            CqeSyndrome.LOCAL_QP_OP_ERR, f"opcode {wqe.opcode:#x} is not for {qp.st.name}"
        )
    if not wqe.ds:
        raise LocalError(CqeSyndrome.LOCAL_QP_OP_ERR, "its ds is 0, or above what was posted")
    if wqe.qpn != qp.handle:
        raise LocalError(CqeSyndrome.LOCAL_QP_OP_ERR, f"WQE is for qpn {wqe.qpn:#x}")
    if qp.streams is not None and qp.streams.has_failed(wqe.buf):
        raise LocalError(CqeSyndrome.WR_FLUSH_ERR, "its stream has failed", Cause.FAILURE)
    try:
        work = operation(hca, qp, wqe)
    except AbsentPageError as page:
        if page_faults.request_may_wait(hca, qp, wqe.opcode):
            raise
        raise LocalError.of_access(page, wqe.opcode) from None
    except AccessError as error:
        raise LocalError.of_access(error, wqe.opcode) from None
    except BindError as error:
        raise LocalError(CqeSyndrome.MW_BIND_ERR, str(error)) from None
    except BadWqeError as error:
        raise LocalError(CqeSyndrome.LOCAL_QP_OP_ERR, str(error)) from None
    limit = qp.max_datagram if isinstance(work, Datagram) else 1 << qp.log_msg_max
    if work is not None and work.length > limit:
        raise LocalError(CqeSyndrome.LOCAL_LENGTH_ERR, f"{work.length} bytes, at most {limit}")
    return work


def piece(hca: Hca, qp: Qp, wqe: Wqe, message: Message, length: int) -> Views:
    """The sender's side of the next ``length`` bytes of a message.

    Raises InPieces when they are too much for one call, and otherwise as ``parse``.
    """
    need = LOCAL_WRITE if message.op is _READ else LOCAL_READ
    try:
        return gather_piece(hca, qp, wqe, message.data_at, need, message.done, length)
    except InPieces:
        raise
    except AbsentPageError as page:
        if page_faults.request_may_wait(hca, qp, wqe.opcode):
            raise
        raise LocalError.of_access(page, wqe.opcode) from None
    except AccessError as error:
        raise LocalError.of_access(error, wqe.opcode) from None


def complete(hca: Hca, qp: Qp, wqe: Wqe, length: int) -> None:
    """The request is done; write a completion if it asked for one."""
    qp.moving = None
    assert qp.sq is not None
    assert qp.scq is not None
    qp.sq.consume(wqe.blocks)
    if wqe.fm_ce_se & CE_MASK == CE_ALWAYS:
        completions.complete_send(hca, qp.scq, qp, wqe, length)
    if qp.is_draining:
        qp_life.drained(hca, qp)


def fail(
    hca: Hca, qp: Qp, wqe: Wqe, syndrome: CqeSyndrome, why: str, cause: Cause = Cause.ANY
) -> None:
    """The request completes in error and the queue pair stops."""
    log.warning("%r: wqe %d: %s: %s", qp, wqe.index, syndrome.name, why)
    assert qp.sq is not None
    assert qp.scq is not None
    qp.sq.consume(wqe.blocks)
    completions.fail_send(hca, qp.scq, qp, syndrome, wqe.index, wqe.opcode, cause)
    if qp.streams is not None and qp.streams.fail(wqe.buf):
        qp.stop_waiting()
        hca.schedule(qp)
    elif qp.st in _STOPPED_BY_ERRORS:
        qp_life.to_error(hca, qp)
    else:
        qp_life.to_send_queue_error(hca, qp)


def break_queue(hca: Hca, qp: Qp, why: Exception) -> None:
    """The ring itself is broken: raise an event, as no completion can name a request."""
    log.warning("%r: send queue is broken: %s", qp, why)
    raise_qp_event(hca, qp, EventType.WQ_CATAS_ERROR)
    qp_life.to_error(hca, qp)


def may_ask_again(qp: Qp) -> bool:
    """Count a retry after a timeout or a sequence error; False when none is left."""
    if qp.retries >= qp.retry_count:
        return False
    qp.retries += 1
    return True


def may_wait_for_receiver(qp: Qp) -> bool:
    """Count a retry after an RNR NAK; False when none is left."""
    if qp.rnr_retry == INFINITE_RETRIES:
        return True
    if qp.rnr_retries >= qp.rnr_retry:
        return False
    qp.rnr_retries += 1
    return True

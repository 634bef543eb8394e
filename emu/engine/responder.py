"""The responder of connected transports: RC, UC and the target side of XRC.

A message passes the steps below in the specification's order (IBTA 9.7.4); each step is a function
that returns or refuses. What a refusal does to the responder itself - an error completion, an
asynchronous event, the error state - happens here as well; what the requester makes of it is the
requester's.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import TYPE_CHECKING

from emu.engine import cq as cq_engine
from emu.engine import qp_life
from emu.engine.memory import (
    LOCAL_WRITE,
    REMOTE_ATOMIC,
    REMOTE_READ,
    REMOTE_WRITE,
    AccessError,
    Views,
    access,
    copy,
)
from emu.engine.message import Dropped, Message, MsgOp, Nak, NakCode, RnrNak
from emu.engine.rq import ListBrokenError, RecvQueue, RecvWqe
from emu.objects import Cq, Qp, Srq
from emu.ports import DmaError
from layouts.enums import CqeOpcode, CqeSyndrome, EventType, QpState, QpType

if TYPE_CHECKING:
    from emu.hca import Hca

log = logging.getLogger(__name__)

ATOMIC_BYTES = 8
LIST_LENGTH_2GIB = 1 << 31
"""What byte_count 0 means (PRM "Data segment")."""

_U64 = Struct("<Q")
_RECEIVING = (QpState.RTR, QpState.RTS, QpState.SQD, QpState.SQER)
_MASK64 = (1 << 64) - 1


def respond(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    """Take one whole message. Returns when it is acknowledged.

    Raises Nak, RnrNak, or Dropped when there is no answer at all.
    """
    if qp.state not in _RECEIVING:
        raise Dropped(f"{qp!r} is in {qp.state.name}")
    _STEPS[message.op](hca, qp, message, slid)


def _send(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    queue, cq, srqn = _receive_queue(hca, qp, message)
    wqe = _take(hca, qp, queue, srqn)
    try:
        target = _scatter_to(hca, qp, wqe, message.length)
        if message.inv_rkey is not None:
            _invalidate(hca, qp, message.inv_rkey)
    except _ReceiveError as error:
        _fail_receive(hca, qp, cq, wqe, srqn, error)
    copy(target, message.data)
    _complete(hca, qp, cq, wqe, srqn, message, slid, _send_opcode(message))


def _send_opcode(message: Message) -> CqeOpcode:
    if message.inv_rkey is not None:
        return CqeOpcode.RESP_SEND_INV
    return CqeOpcode.RESP_SEND if message.immediate is None else CqeOpcode.RESP_SEND_IMM


def _write(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    _need(hca, qp, qp.rwe)
    target = _remote(hca, qp, message, REMOTE_WRITE)
    if message.immediate is None:
        copy(target, message.data)
        return
    queue, cq, srqn = _receive_queue(hca, qp, message)
    wqe = _take(hca, qp, queue, srqn)
    copy(target, message.data)
    _complete(hca, qp, cq, wqe, srqn, message, slid, CqeOpcode.RESP_WR_IMM)


def _read(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    _need(hca, qp, qp.rre)
    copy(message.reply, _remote(hca, qp, message, REMOTE_READ))


def _atomic(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    """Eight bytes in the host's byte order, replaced at once; the old value is the answer."""
    _need(hca, qp, qp.rae)
    if message.va % ATOMIC_BYTES:
        raise _invalid_request(hca, qp, f"atomic at {message.va:#x}")
    views = _remote(hca, qp, message, REMOTE_ATOMIC)
    old = _U64.unpack(b"".join(views))[0]
    new = _swapped(message, old) if message.op is MsgOp.COMPARE_SWAP else _added(message, old)
    if new != old:
        copy(views, (memoryview(_U64.pack(new)),))
    copy(message.reply, (memoryview(_U64.pack(old)),))


def _swapped(message: Message, old: int) -> int:
    if (old ^ message.compare) & message.compare_mask:
        return old
    return old & ~message.swap_add_mask | message.swap_add & message.swap_add_mask


def _added(message: Message, old: int) -> int:
    """Add field by field: a set bit of ``compare`` is the left end of a field (PRM "Masked FA")."""
    boundaries = message.compare
    if not boundaries:
        return (old + message.swap_add) & _MASK64
    result = carry = 0
    for bit in range(64):
        total = (old >> bit & 1) + (message.swap_add >> bit & 1) + carry
        result |= (total & 1) << bit
        carry = 0 if boundaries >> bit & 1 else total >> 1
    return result


_STEPS = {
    MsgOp.SEND: _send,
    MsgOp.WRITE: _write,
    MsgOp.READ: _read,
    MsgOp.COMPARE_SWAP: _atomic,
    MsgOp.FETCH_ADD: _atomic,
}


class _ReceiveError(Exception):
    """A receive request cannot take the message: what its owner and its sender are told."""

    def __init__(self, syndrome: CqeSyndrome, code: NakCode, why: str) -> None:
        super().__init__(why)
        self.syndrome = syndrome
        self.code = code


def _need(hca: Hca, qp: Qp, allowed: int) -> None:
    """The queue pair allows this kind of remote access at all."""
    if not allowed:
        raise _access_violation(hca, qp, "queue pair does not allow it")


def _remote(hca: Hca, qp: Qp, message: Message, need: int) -> Views:
    """The views behind (va, rkey, length)."""
    try:
        return access(hca, qp.pd, qp.handle, message.rkey, message.va, message.length, need)
    except AccessError as error:
        raise _access_violation(hca, qp, str(error)) from None


def _access_violation(hca: Hca, qp: Qp, why: str) -> Exception:
    log.warning("%r: remote access refused: %s", qp, why)
    return _refuse(hca, qp, EventType.WQ_ACCESS_ERROR, NakCode.REMOTE_ACCESS_ERROR)


def _invalid_request(hca: Hca, qp: Qp, why: str) -> Exception:
    log.warning("%r: invalid request: %s", qp, why)
    return _refuse(hca, qp, EventType.WQ_INVAL_REQ_ERROR, NakCode.INVALID_REQUEST)


def _refuse(hca: Hca, qp: Qp, event: EventType, code: NakCode) -> Exception:
    """An RC responder tells its owner by event and stops; a UC responder only drops (9.9.3)."""
    if qp.st is QpType.UC:
        return Dropped("UC has no NAK")
    qp_life.raise_qp_event(hca, qp, event)
    qp_life.to_error(hca, qp)
    return Nak(code)


def _receive_queue(hca: Hca, qp: Qp, message: Message) -> tuple[RecvQueue, Cq, int]:
    """The queue that gives the receive request, its CQ, and the number of a shared one."""
    srq: Srq | None = qp.srq
    if qp.st is QpType.XRC:
        srq = hca.srqs.get(message.srqn)
        if srq is None or srq.xrcd is None or srq.xrcd is not qp.xrcd:
            raise _invalid_request(hca, qp, f"XRC SRQ {message.srqn:#x}")
    cq = srq.cq if srq is not None and srq.cq is not None else qp.rcq
    queue = srq.queue if srq is not None else qp.rq
    if queue is None or cq is None:
        raise _invalid_request(hca, qp, "no receive queue")
    return queue, cq, srq.handle if srq is not None else 0


def _take(hca: Hca, qp: Qp, queue: RecvQueue, srqn: int) -> RecvWqe:
    try:
        wqe = queue.take()
    except (DmaError, ListBrokenError) as error:
        log.warning("%r: receive queue is broken: %s", qp, error)
        if srqn:
            qp_life.raise_srq_event(hca, srqn, EventType.SRQ_CATAS_ERROR)
        raise _refuse(hca, qp, EventType.WQ_CATAS_ERROR, NakCode.REMOTE_OPERATIONAL_ERROR) from None
    if wqe is None:
        qp.count("out_of_buffer")
        raise (
            Dropped("UC without a receive request")
            if qp.st is QpType.UC
            else RnrNak(qp.min_rnr_nak)
        )
    if srqn:
        qp_life.check_srq_limit(hca, srqn)
    return wqe


def _scatter_to(hca: Hca, qp: Qp, wqe: RecvWqe, length: int) -> Views:
    """As much of the receive request's scatter list as the message fills."""
    views: list[memoryview] = []
    left = length
    for byte_count, lkey, address in wqe.segments:
        if not left:
            break
        size = min(byte_count or LIST_LENGTH_2GIB, left)
        try:
            views += access(hca, wqe.pd, qp.handle, lkey, address, size, LOCAL_WRITE)
        except AccessError as error:
            raise _ReceiveError(
                CqeSyndrome.LOCAL_PROT_ERR, NakCode.REMOTE_OPERATIONAL_ERROR, str(error)
            ) from None
        left -= size
    if left:
        raise _ReceiveError(
            CqeSyndrome.LOCAL_LENGTH_ERR,
            NakCode.INVALID_REQUEST,
            f"message of {length} bytes is {left} too long",
        )
    return views


def _invalidate(hca: Hca, qp: Qp, rkey: int) -> None:
    """SEND with invalidate: the key must allow it and belong here (IBTA 9.4.1.1.3)."""
    mkey = hca.mkeys.get(rkey >> 8)
    if mkey is None or mkey.variant != rkey & 0xFF or mkey.pd is not qp.pd:
        why = "no such key"
    elif mkey.free or not mkey.en_rinval or not mkey.bound_to(qp.handle):
        why = "key is not open to invalidation from here"
    else:
        mkey.invalidate()
        return
    raise _ReceiveError(
        CqeSyndrome.LOCAL_ACCESS_ERR, NakCode.REMOTE_ACCESS_ERROR, f"invalidate {rkey:#x}: {why}"
    )


def _fail_receive(hca: Hca, qp: Qp, cq: Cq, wqe: RecvWqe, srqn: int, error: _ReceiveError) -> None:
    log.warning("%r: receive request %d fails: %s", qp, wqe.index, error)
    cq_engine.fail(
        hca, cq, qp, CqeOpcode.RESP_ERR, error.syndrome, wqe_counter=wqe.index, srqn=srqn
    )
    qp_life.to_error(hca, qp)
    if qp.st is QpType.UC:
        raise Dropped("UC has no NAK")
    raise Nak(error.code, str(error))


def _complete(
    hca: Hca, qp: Qp, cq: Cq, wqe: RecvWqe, srqn: int, message: Message, slid: int,
    opcode: CqeOpcode,
) -> None:  # fmt: skip
    immediate = message.inv_rkey if message.immediate is None else message.immediate
    cq_engine.complete(
        hca,
        cq,
        qp,
        opcode,
        wqe_counter=wqe.index,
        byte_cnt=message.length,
        srqn=srqn,
        immediate=immediate or 0,
        flags_rqpn=qp.remote_qpn,
        slid=slid,
        solicited=message.solicited,
    )

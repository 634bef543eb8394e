"""The responder of connected transports: RC, UC and the target side of XRC.

A message passes the steps below in the specification's order (IBTA 9.7.4), whole or packet by
packet: ``begin`` before its first byte, ``claim`` before its last ones, ``place`` for each piece,
``finish``; READ and atomics in one step each. What a refusal does to the responder itself - an
error completion, an asynchronous event, the error state - happens here as well; what the requester
makes of it is the requester's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from emu.engine import cq as cq_engine
from emu.engine import page_faults, qp_life
from emu.engine.memory import (
    LOCAL_WRITE,
    REMOTE_ATOMIC,
    REMOTE_READ,
    REMOTE_WRITE,
    AccessError,
    PageFault,
    Views,
    access,
    copy,
    is_type_2a,
)
from emu.engine.message import Dropped, Message, MsgOp, Nak, NakCode, RnrNak, atomic_word
from emu.engine.odp import Access, Fault, Held, Kind, Side
from emu.engine.rq import ListBrokenError, RecvWqe
from emu.engine.signature import on_wire
from emu.objects import Cq, Pd, Qp, Srq
from emu.ports import DmaError
from layouts.enums import CqeOpcode, CqeSyndrome, EventType, QpState, QpType

if TYPE_CHECKING:
    from emu.hca import Hca

log = logging.getLogger(__name__)

ATOMIC_BYTES = 8
LIST_LENGTH_2GIB = 1 << 31
"""What byte_count 0 means (PRM "Data segment")."""

RECEIVING = (QpState.RTR, QpState.RTS, QpState.SQD, QpState.SQER)
"""States in which requests are taken (IBTA 10.3.1)."""

_MASK64 = (1 << 64) - 1
_SEND, _WRITE, _READ = MsgOp.SEND, MsgOp.WRITE, MsgOp.READ
_XRC = QpType.XRC


class Arrival:
    """What a message has been granted: the remote range of a WRITE, a receive request, or both."""

    __slots__ = ("cq", "srqn", "views", "wqe")

    cq: Cq
    srqn: int

    def __init__(self, views: Views = ()) -> None:
        self.views = views
        self.wqe: RecvWqe | None = None

    @classmethod
    def of(cls, wqe: RecvWqe, cq: Cq, srqn: int) -> Arrival:
        """A receive request: of the shared queue ``srqn``, or of the queue pair's own when 0."""
        arrival = cls()
        arrival.wqe, arrival.cq, arrival.srqn = wqe, cq, srqn
        return arrival


def respond(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    """Take one whole message. Returns when it is acknowledged.

    Raises Nak, RnrNak, Dropped when there is no answer at all, and Held when it waits for a page:
    the message is to come again then.
    """
    if qp.state not in RECEIVING:
        raise Dropped(f"{qp!r} is in {qp.state.name}")
    if qp.faults and Side.RESPONDER in qp.faults:
        raise Held(qp.faults[Side.RESPONDER])
    op = message.op
    if op is _READ:
        copy(message.reply, read(hca, qp, message))
    elif op is _WRITE or op is _SEND:
        arrival = begin(hca, qp, message)
        claim(hca, qp, message, arrival)
        try:
            place(hca, qp, message, arrival, 0, message.data, message.length)
        except Held:
            qp.kept = arrival
            raise
        finish(hca, qp, message, arrival, slid)
    else:
        copy(message.reply, (memoryview(atomic_word(hca).pack(atomic(hca, qp, message))),))


# The steps.


def begin(hca: Hca, qp: Qp, message: Message) -> Arrival:
    """Before the first byte: permission and range of a WRITE, the receive request of a SEND."""
    if message.op is _WRITE:
        qp.count("rx_write_requests")
        _need(hca, qp, qp.rwe)
        return Arrival(_whole(hca, qp, message, REMOTE_WRITE, "rx_write_requests"))
    arrival = Arrival()
    _take(hca, qp, message, arrival)
    return arrival


def claim(hca: Hca, qp: Qp, message: Message, arrival: Arrival) -> None:
    """Before the last bytes: immediate data behind a WRITE wants a receive request."""
    if message.immediate is not None and arrival.wqe is None:
        _take(hca, qp, message, arrival)


def place(
    hca: Hca, qp: Qp, message: Message, arrival: Arrival, offset: int, data: Views, length: int
) -> None:
    """Put ``length`` bytes where they belong; they stand ``offset`` bytes into the message.

    A key that was good for the whole message may be gone for a later piece of it.
    """
    if message.op is _SEND:
        try:
            target = _scatter_to(hca, qp, arrival, offset, length)
        except _ReceiveError as error:
            _fail_receive(hca, qp, arrival, error)
    elif length == message.length:
        target = arrival.views
    else:
        target = _remote(hca, qp, message, offset, length, REMOTE_WRITE)
    copy(target, data)


def finish(hca: Hca, qp: Qp, message: Message, arrival: Arrival, slid: int) -> None:
    """After the last byte: invalidate the key that the sender names, and complete."""
    if message.inv_rkey is not None:
        try:
            _invalidate(hca, qp, _domain(hca, qp, message), message.inv_rkey)
        except _ReceiveError as error:
            _fail_receive(hca, qp, arrival, error)
    if arrival.wqe is not None:
        _complete(hca, qp, message, arrival, slid)


def read(hca: Hca, qp: Qp, message: Message, offset: int = 0, length: int | None = None) -> Views:
    """The bytes that a READ asks for, or some of them."""
    if length is not None:
        _need(hca, qp, qp.rre)
        return _remote(hca, qp, message, offset, length, REMOTE_READ)
    qp.count("rx_read_requests")
    _need(hca, qp, qp.rre)
    return _whole(hca, qp, message, REMOTE_READ, "rx_read_requests")


def read_again(hca: Hca, qp: Qp, message: Message, offset: int, length: int) -> Views | None:
    """The bytes for a READ that was answered before; None, and no consequences, when it may not.

    Its requester may have what it wanted and have taken the key away since. Raises Held when a page
    is absent; when the driver gives up on it, the answer is Dropped.
    """
    if not qp.rre:
        return None
    try:
        pd, va = _domain(hca, qp, message), _start(hca, message) + offset
        return access(hca, pd, qp.handle, message.rkey, va, length, REMOTE_READ)
    except PageFault as page:
        if qp.state not in RECEIVING or not page_faults.may_wait(hca, qp, "read"):
            return None
        lost = Dropped(str(page))
        raise Held(_suspend_rdma(hca, qp, message, offset, page, lambda: lost)) from None
    except AccessError:
        return None


def atomic(hca: Hca, qp: Qp, message: Message) -> int:
    """Eight bytes, replaced at once; the old value is the answer."""
    qp.count("rx_atomic_requests")
    _need(hca, qp, qp.rae)
    if message.va % ATOMIC_BYTES:
        raise invalid_request(hca, qp, f"atomic at {message.va:#x}")
    views = _whole(hca, qp, message, REMOTE_ATOMIC, "rx_atomic_requests")
    old: int = atomic_word(hca).unpack(b"".join(views))[0]
    new = _swapped(message, old) if message.op is MsgOp.COMPARE_SWAP else _added(message, old)
    if new != old:
        copy(views, (memoryview(atomic_word(hca).pack(new)),))
    return old


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


# Remote memory.


def _need(hca: Hca, qp: Qp, allowed: int) -> None:
    """The queue pair allows this kind of remote access at all."""
    if not allowed:
        raise _access_violation(hca, qp, "queue pair does not allow it")


def _whole(hca: Hca, qp: Qp, message: Message, need: int, counter: str) -> Views:
    """All of the range. A request that has to wait comes again, and is counted then."""
    try:
        return _remote(hca, qp, message, 0, message.length, need)
    except Held:
        qp.count(counter, -1)
        raise


def _remote(hca: Hca, qp: Qp, message: Message, offset: int, length: int, need: int) -> Views:
    """The views behind a piece of (va, rkey, length)."""
    pd, va = _domain(hca, qp, message), _start(hca, message) + offset
    try:
        return access(hca, pd, qp.handle, message.rkey, va, length, need)
    except PageFault as page:
        raise _wait_for_page(hca, qp, message, offset, page) from None
    except AccessError as error:
        raise _access_violation(hca, qp, str(error)) from None


def _start(hca: Hca, message: Message) -> int:
    """Where the message's range begins in the wire's stream of its key."""
    if not hca.has_signatures:
        return message.va
    return on_wire(hca, message.rkey, message.va, 0)[0]


_RDMA_OPERATIONS = {
    MsgOp.WRITE: (Kind.RDMA_WRITE, "write"),
    MsgOp.READ: (Kind.RDMA_READ, "read"),
    MsgOp.COMPARE_SWAP: (Kind.RDMA_WRITE, "atomic"),
    MsgOp.FETCH_ADD: (Kind.RDMA_WRITE, "atomic"),
}
"""How an RDMA faults, and the capability that lets it."""


def _wait_for_page(hca: Hca, qp: Qp, message: Message, offset: int, page: PageFault) -> Exception:
    """The responder waits for a page of remote memory; what is to be raised."""
    _, operation = _RDMA_OPERATIONS[message.op]
    if qp.state not in RECEIVING or not page_faults.may_wait(hca, qp, operation):
        return _access_violation(hca, qp, str(page))

    why = f"page fault refused: {page}"

    def refuse() -> Exception:
        return _access_violation(hca, qp, why)

    return Held(_suspend_rdma(hca, qp, message, offset, page, refuse))


def _suspend_rdma(
    hca: Hca,
    qp: Qp,
    message: Message,
    offset: int,
    page: PageFault,
    refuse: Callable[[], Exception],
) -> Fault:
    """Wait for a page of remote memory, or for what the responder waits for already.

    The operation goes on ``offset`` bytes behind its start.
    """
    if Side.RESPONDER in qp.faults:
        return qp.faults[Side.RESPONDER]
    kind, _ = _RDMA_OPERATIONS[message.op]
    packet, done = min(message.length - offset, qp.mtu_bytes), page_faults.committed(hca, offset)
    what = Access(
        kind, packet, r_key=message.rkey, va=message.va, length=message.length, committed=done
    )
    return page_faults.suspend(hca, qp, Side.RESPONDER, what, page, refuse)


def _domain(hca: Hca, qp: Qp, message: Message) -> Pd | None:
    """Whose keys a request may use; on XRC they are the named queue's (IBTA annex A14)."""
    srq = _shared_queue(hca, qp, message) if qp.st is _XRC else None
    return qp.pd if srq is None else srq.pd


def _access_violation(hca: Hca, qp: Qp, why: str) -> Exception:
    log.log(_level(qp), "%r: remote access refused: %s", qp, why)
    return _refuse(hca, qp, EventType.WQ_ACCESS_ERROR, NakCode.REMOTE_ACCESS_ERROR)


def invalid_request(hca: Hca, qp: Qp, why: str) -> Exception:
    """The queue pair stops over a request that makes no sense; what is to be raised."""
    log.log(_level(qp), "%r: invalid request: %s", qp, why)
    return _refuse(hca, qp, EventType.WQ_INVAL_REQ_ERROR, NakCode.INVALID_REQUEST)


def _level(qp: Qp) -> int:
    """A reliable queue pair stops over it; an unreliable one may be sent the same for ever."""
    return logging.DEBUG if qp.st is QpType.UC else logging.WARNING


def _refuse(hca: Hca, qp: Qp, event: EventType, code: NakCode) -> Exception:
    """An RC responder tells its owner by event and stops; a UC responder only drops (9.9.3)."""
    if qp.st is QpType.UC:
        return Dropped("UC has no NAK")
    qp_life.raise_qp_event(hca, qp, event)
    qp_life.to_error(hca, qp)
    return Nak(code)


# Receive requests.


class _ReceiveError(Exception):
    """A receive request cannot take the message: what its owner and its sender are told."""

    def __init__(self, syndrome: CqeSyndrome, code: NakCode, why: str) -> None:
        super().__init__(why)
        self.syndrome = syndrome
        self.code = code


def _take(hca: Hca, qp: Qp, message: Message, arrival: Arrival) -> None:
    """The next receive request of the queue pair, or of the shared queue that the message names."""
    srq = _shared_queue(hca, qp, message)
    queue = qp.rq if srq is None else srq.queue
    cq = qp.rcq if srq is None or srq.cq is None else srq.cq
    if queue is None or cq is None:
        raise invalid_request(hca, qp, "no receive queue")
    srqn = srq.handle if srq is not None else 0
    if _take_kept(qp, srqn, arrival):
        return
    try:
        wqe = queue.take()
    except (DmaError, ListBrokenError) as error:
        qp_life.break_receives(hca, qp, srq, error)
        if qp.st is QpType.UC:
            raise Dropped("UC has no NAK") from None
        raise Nak(NakCode.REMOTE_OPERATIONAL_ERROR) from None
    if wqe is None:
        qp.count("out_of_buffer")
        if qp.st is QpType.UC:
            raise Dropped("UC without a receive request")
        raise RnrNak(qp.min_rnr_nak)
    if srqn:
        qp_life.check_srq_limit(hca, srqn)
    arrival.wqe, arrival.cq, arrival.srqn = wqe, cq, srqn


def _take_kept(qp: Qp, srqn: int, arrival: Arrival) -> bool:
    """A message that has waited for a page comes again: its receive request is still here."""
    kept = qp.kept
    if kept is None or kept.wqe is None or kept.srqn != srqn:
        return False
    arrival.wqe, arrival.cq, arrival.srqn = kept.wqe, kept.cq, kept.srqn
    qp.kept = None
    return True


def _shared_queue(hca: Hca, qp: Qp, message: Message) -> Srq | None:
    if qp.st is not _XRC:
        return qp.srq
    srq = hca.srqs.get(message.srqn)
    if srq is None or srq.xrcd is None or srq.xrcd is not qp.xrcd:
        raise invalid_request(hca, qp, f"XRC SRQ {message.srqn:#x}")
    return srq


def _scatter_to(hca: Hca, qp: Qp, arrival: Arrival, offset: int, length: int) -> Views:
    """Where a piece of the message goes in the receive request's scatter list."""
    views: list[memoryview] = []
    wqe, skip, left = arrival.wqe, offset, length
    assert wqe is not None
    for byte_count, lkey, address in wqe.segments:
        if not left:
            break
        room = byte_count or LIST_LENGTH_2GIB
        if hca.has_signatures:
            address, room = on_wire(hca, lkey, address, room)
        if skip >= room:
            skip -= room
            continue
        size = min(room - skip, left)
        try:
            views += access(hca, wqe.pd, qp.handle, lkey, address + skip, size, LOCAL_WRITE)
        except PageFault as page:
            raise _wait_for_room(hca, qp, arrival, offset, length, page) from None
        except AccessError as error:
            raise _ReceiveError(
                CqeSyndrome.LOCAL_PROT_ERR, NakCode.REMOTE_OPERATIONAL_ERROR, str(error)
            ) from None
        left -= size
        skip = 0
    if left:
        raise _ReceiveError(
            CqeSyndrome.LOCAL_LENGTH_ERR,
            NakCode.INVALID_REQUEST,
            f"message of {offset + length} bytes or more is {left} too long",
        )
    return views


def _wait_for_room(
    hca: Hca, qp: Qp, arrival: Arrival, offset: int, length: int, page: PageFault
) -> Exception:
    """The responder waits for a page of a receive request; what is to be raised.

    ``length`` bytes are to go into the request, behind ``offset`` bytes that it has.
    """
    wqe, srqn = arrival.wqe, arrival.srqn
    assert wqe is not None
    prot = _ReceiveError(
        CqeSyndrome.LOCAL_PROT_ERR, NakCode.REMOTE_OPERATIONAL_ERROR, f"page fault refused: {page}"
    )
    if not page_faults.may_wait(hca, qp, "srq_receive" if srqn else "receive"):
        return prot

    def refuse() -> Exception:
        try:
            _fail_receive(hca, qp, arrival, prot)
        except (Nak, Dropped) as answer:
            return answer

    kind = Kind.SHARED_RECEIVE if srqn else Kind.RECEIVE
    packet, done = min(length, qp.mtu_bytes), page_faults.committed(hca, offset)
    what = Access(kind, packet, srqn or qp.handle, wqe.index, committed=done)
    return Held(page_faults.suspend(hca, qp, Side.RESPONDER, what, page, refuse))


def _invalidate(hca: Hca, qp: Qp, pd: Pd | None, rkey: int) -> None:
    """SEND with invalidate: the key must allow it and belong here (IBTA 9.4.1.1.3)."""
    mkey = hca.mkeys.get(rkey >> 8)
    if mkey is None or mkey.variant != rkey & 0xFF:
        why = "no such key"
    elif mkey.pd is not pd and not is_type_2a(hca, mkey, qp.handle):
        why = "key of another domain"
    elif mkey.free or not mkey.en_rinval or not mkey.bound_to(qp.handle):
        why = "key is not open to invalidation from here"
    else:
        mkey.invalidate()
        return
    raise _ReceiveError(
        CqeSyndrome.LOCAL_ACCESS_ERR, NakCode.REMOTE_ACCESS_ERROR, f"invalidate {rkey:#x}: {why}"
    )


def _fail_receive(hca: Hca, qp: Qp, arrival: Arrival, error: _ReceiveError) -> NoReturn:
    index = arrival.wqe.index if arrival.wqe is not None else -1
    log.warning("%r: receive request %d fails: %s", qp, index, error)
    fail_receive(hca, qp, arrival, error.syndrome)
    qp_life.to_error(hca, qp)
    if qp.st is QpType.UC:
        raise Dropped("UC has no NAK")
    raise Nak(error.code, str(error))


def fail_receive(hca: Hca, qp: Qp, arrival: Arrival, syndrome: CqeSyndrome) -> None:
    """Complete a message's receive request in error, if it has one."""
    wqe, arrival.wqe = arrival.wqe, None
    if wqe is not None:
        cq_engine.fail(
            hca, arrival.cq, qp, CqeOpcode.RESP_ERR, syndrome,
            wqe_counter=wqe.index, srqn=arrival.srqn,
        )  # fmt: skip


def _complete(hca: Hca, qp: Qp, message: Message, arrival: Arrival, slid: int) -> None:
    wqe, arrival.wqe = arrival.wqe, None
    assert wqe is not None
    immediate = message.inv_rkey if message.immediate is None else message.immediate
    cq_engine.complete(
        hca,
        arrival.cq,
        qp,
        _opcode(message),
        wqe_counter=wqe.index,
        byte_cnt=message.length,
        srqn=arrival.srqn,
        immediate=immediate or 0,
        flags_rqpn=qp.remote_qpn,
        slid=slid,
        solicited=message.solicited,
    )


def _opcode(message: Message) -> CqeOpcode:
    if message.op is _WRITE:
        return CqeOpcode.RESP_WR_IMM
    if message.inv_rkey is not None:
        return CqeOpcode.RESP_SEND_INV
    return CqeOpcode.RESP_SEND if message.immediate is None else CqeOpcode.RESP_SEND_IMM

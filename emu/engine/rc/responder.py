"""The responder of connected transports: RC, UC and the target side of XRC.

A message, whole or packet by packet, passes these steps in the specification's order (IBTA 9.7.4):
``begin`` before its first byte, ``claim`` before its last bytes, ``place`` for each piece,
``finish`` after the last. A READ or an atomic is one step. When a request is NAKed, this module
also does what that means for the responder: an error completion, an asynchronous event, the error
state. The requester decides what a NAK means for its request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.engine.mr import page_faults
from emu.engine.mr.access import access, check
from emu.engine.mr.rights import (
    REMOTE_ATOMIC,
    REMOTE_READ,
    REMOTE_WRITE,
    AccessError,
    InPieces,
    PageFault,
)
from emu.engine.qp.transitions import RECEIVING
from emu.engine.rc.nak import Dropped
from emu.engine.rc.receive import (
    ReceiveError,
    complete,
    give_up,
    invalidate,
    keep,
    named_queue,
    scatter_to,
    take,
)
from emu.engine.rc.refusals import invalid_request
from emu.engine.rc.remote import (
    begin_pieces,
    domain_of,
    need_right,
    next_piece,
    start_of,
    suspend_rdma,
    whole,
)
from emu.engine.wqe.atomic import atomic_word
from emu.objects import Qp
from emu.objects.message import Message, MsgOp
from emu.objects.page_fault import Held, Side
from emu.objects.receive_queue import Arrival
from emu.objects.views import Views, copy
from layouts.enums import QpType

if TYPE_CHECKING:
    from emu.device.hca import Hca

ATOMIC_BYTES = 8
_MASK64 = (1 << 64) - 1
_SEND, _WRITE, _READ = MsgOp.SEND, MsgOp.WRITE, MsgOp.READ


def respond(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    """Take one whole message. Returns when it is acknowledged.

    Also returns when the message has begun but is too much for one call: then ``message.most`` is
    set, and the caller has to pass it by ``take_share``. Raises Nak or RnrNak, Dropped when there
    is no response, and Held when a page is absent: the caller has to pass the message again.
    """
    if qp.state not in RECEIVING or qp.faults:
        _check_ready(qp)
    op = message.op
    if op is _READ:
        data = read(hca, qp, message)
        if message.most:
            _keep(hca, qp, message, Arrival())
        else:
            copy(message.reply, data)
    elif op is _WRITE or op is _SEND:
        arrival = begin(hca, qp, message)
        if message.most:
            _keep(hca, qp, message, arrival)
            return
        if message.immediate is not None:
            claim(hca, qp, message, arrival)
        try:
            place(hca, qp, message, arrival, 0, message.data, message.length)
        except InPieces as more:
            message.most = more.most
            _keep(hca, qp, message, arrival)
            return
        except Held:
            qp.kept = arrival
            keep(hca, qp, arrival)
            raise
        finish(hca, qp, message, arrival, slid)
    else:
        copy(message.reply, (memoryview(atomic_word(hca).pack(atomic(hca, qp, message))),))


def _check_ready(qp: Qp) -> None:
    if qp.state not in RECEIVING:
        raise Dropped(f"{qp!r} is in {qp.state.name}")
    if Side.RESPONDER in qp.faults:
        raise Held(qp.faults[Side.RESPONDER])


# A message that is too much for one call.


def _keep(hca: Hca, qp: Qp, message: Message, arrival: Arrival) -> None:
    """Remember a message that has begun; if the QP stops, its receive request is flushed."""
    message.arrival = arrival
    if arrival.wqe is not None:
        qp.kept = arrival
        keep(hca, qp, arrival)


def is_begun(qp: Qp, message: Message) -> bool:
    """Whether the message has begun at this responder and still has its receive request."""
    arrival = message.arrival
    return arrival is not None and (message.op is not _SEND or arrival is qp.kept)


def take_share(hca: Hca, qp: Qp, message: Message, local: Views, length: int, slid: int) -> None:
    """Take the next ``length`` bytes of a message, or of a READ give them.

    ``local`` is the requester's memory. Raises as ``respond``, and InPieces when they are too much
    for one call.
    """
    _check_ready(qp)
    if message.arrival is None:
        _begin_shares(hca, qp, message)
    arrival, offset = message.arrival, message.done
    assert arrival is not None
    if message.op is _SEND and arrival.wqe is None:
        raise invalid_request(hca, qp, "the message's receive queue was destroyed")
    is_last = offset + length == message.length
    if message.op is _READ:
        copy(local, read(hca, qp, message, offset, length))
    else:
        if is_last:
            claim(hca, qp, message, arrival)
            _keep(hca, qp, message, arrival)
        place(hca, qp, message, arrival, offset, local, length)
        if is_last:
            qp.kept = None if qp.kept is arrival else qp.kept
            finish(hca, qp, message, arrival, slid)


def _begin_shares(hca: Hca, qp: Qp, message: Message) -> None:
    if message.op is _READ:
        begin_read(hca, qp, message)
        _keep(hca, qp, message, Arrival())
    else:
        _keep(hca, qp, message, begin(hca, qp, message, in_pieces=True))


# The steps.


def begin(hca: Hca, qp: Qp, message: Message, *, in_pieces: bool = False) -> Arrival:
    """Before the first byte: check right and range of a WRITE, take a receive request for a SEND.

    The pages of a WRITE in pieces are looked up piece by piece.
    """
    if message.op is _WRITE:
        qp.count("rx_write_requests")
        need_right(hca, qp, qp.rwe)
        if in_pieces:
            begin_pieces(hca, qp, message, REMOTE_WRITE, "rx_write_requests")
            return Arrival()
        return Arrival(whole(hca, qp, message, REMOTE_WRITE, "rx_write_requests"))
    arrival = Arrival()
    take(hca, qp, message, arrival)
    return arrival


def claim(hca: Hca, qp: Qp, message: Message, arrival: Arrival) -> None:
    """Before the last bytes: a WRITE with immediate data needs a receive request."""
    if message.immediate is not None and arrival.wqe is None:
        take(hca, qp, message, arrival)


def place(
    hca: Hca, qp: Qp, message: Message, arrival: Arrival, offset: int, data: Views, length: int
) -> None:
    """Write the ``length`` bytes at ``offset`` of the message to their place in memory.

    A key that was valid when the message began may be gone for a later piece of it.
    """
    if message.op is _SEND:
        try:
            target = scatter_to(hca, qp, arrival, offset, length)
        except ReceiveError as error:
            give_up(hca, qp, arrival, error)
    elif length == message.length and arrival.views:
        target = arrival.views
    else:
        target = next_piece(hca, qp, message, offset, length, REMOTE_WRITE)
    copy(target, data)


def finish(hca: Hca, qp: Qp, message: Message, arrival: Arrival, slid: int) -> None:
    """After the last byte: invalidate the key that the sender names, and complete the receive."""
    if message.inv_rkey is not None:
        try:
            invalidate(hca, qp, domain_of(hca, qp, message), message.inv_rkey)
        except ReceiveError as error:
            give_up(hca, qp, arrival, error)
    if arrival.wqe is not None:
        complete(hca, qp, message, arrival, slid)


def read(hca: Hca, qp: Qp, message: Message, offset: int = 0, length: int | None = None) -> Views:
    """The bytes that a READ asks for, or some; all of them may be too much for one call."""
    if length is not None:
        need_right(hca, qp, qp.rre)
        return next_piece(hca, qp, message, offset, length, REMOTE_READ)
    qp.count("rx_read_requests")
    need_right(hca, qp, qp.rre)
    return whole(hca, qp, message, REMOTE_READ, "rx_read_requests")


def begin_read(hca: Hca, qp: Qp, message: Message) -> None:
    """Before the first byte of a READ in pieces: check right and range."""
    qp.count("rx_read_requests")
    need_right(hca, qp, qp.rre)
    begin_pieces(hca, qp, message, REMOTE_READ, "rx_read_requests")


def may_read_again(hca: Hca, qp: Qp, message: Message) -> bool:
    """Whether the key of a duplicate READ still allows it."""
    if not qp.rre or (qp.st is QpType.XRC and named_queue(hca, qp, message) is None):
        return False
    try:
        check(
            hca, domain_of(hca, qp, message), qp.handle, message.rkey, start_of(hca, message),
            message.length, REMOTE_READ,
        )  # fmt: skip
    except AccessError:
        return False
    return True


def read_again(hca: Hca, qp: Qp, message: Message, offset: int, length: int) -> Views | None:
    """The bytes for a duplicate READ; None when the key does not allow it any more.

    That is no error: the requester may have its data already and the key may be gone since. Raises
    Held when a page is absent; if the driver does not bring it in, there is no response (Dropped).
    """
    if not qp.rre or (qp.st is QpType.XRC and named_queue(hca, qp, message) is None):
        return None
    try:
        pd, va = domain_of(hca, qp, message), start_of(hca, message) + offset
        return access(hca, pd, qp.handle, message.rkey, va, length, REMOTE_READ)
    except PageFault as page:
        if qp.state not in RECEIVING or not page_faults.may_wait(hca, qp, "read"):
            return None
        lost = Dropped(str(page))
        raise Held(suspend_rdma(hca, qp, message, offset, page, lambda: lost)) from None
    except AccessError:
        return None


def atomic(hca: Hca, qp: Qp, message: Message) -> int:
    """Replace eight bytes atomically; returns the old value, which is the response."""
    qp.count("rx_atomic_requests")
    need_right(hca, qp, qp.rae)
    if message.va % ATOMIC_BYTES:
        raise invalid_request(hca, qp, f"atomic at {message.va:#x}")
    views = whole(hca, qp, message, REMOTE_ATOMIC, "rx_atomic_requests")
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
    """Add field by field; a set bit of ``compare`` is the top bit of a field (PRM "Masked FA")."""
    boundaries = message.compare
    if not boundaries:
        return (old + message.swap_add) & _MASK64
    result = carry = 0
    for bit in range(64):
        total = (old >> bit & 1) + (message.swap_add >> bit & 1) + carry
        result |= (total & 1) << bit
        carry = 0 if boundaries >> bit & 1 else total >> 1
    return result

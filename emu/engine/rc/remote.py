"""Remote memory: how a responder checks and maps the (va, rkey, length) of a request.

The queue pair's rights are checked first, then the key (check rkey: IBTA 9.7.4.1.4, 10.6.5.2). When
a page is absent the responder waits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from emu.engine.mr import page_faults
from emu.engine.mr.access import access, check
from emu.engine.mr.rights import AccessError, InPieces, PageFault
from emu.engine.mr.signature import on_wire
from emu.engine.qp.transitions import RECEIVING
from emu.engine.rc.receive import shared_queue
from emu.engine.rc.refusals import access_violation
from emu.objects import Pd, Qp
from emu.objects.message import Message, MsgOp
from emu.objects.page_fault import Access, Fault, Held, Kind, Side
from emu.objects.views import Views
from layouts.enums import QpType

if TYPE_CHECKING:
    from emu.device.hca import Hca


def need_right(hca: Hca, qp: Qp, allowed: int) -> None:
    """Check that the queue pair allows this kind of remote access. Raises Nak or Dropped."""
    if not allowed:
        raise access_violation(hca, qp, "queue pair does not allow it")


_XRC = QpType.XRC

LOOK_AHEAD = 1 << 18
"""How much of a message in pieces is translated at a time. A message may have 2 GiB, and a page
fault reports all the absent pages of the range; this bounds the cost of both for each packet."""


def begin_pieces(hca: Hca, qp: Qp, message: Message, need: int, counter: str) -> None:
    """Check that the key allows all of the range, and that its first pages are present.

    Raises as ``piece`` does. A request that has to wait is repeated, and counted only then.
    """
    pd, va = domain_of(hca, qp, message), start_of(hca, message)
    try:
        check(hca, pd, qp.handle, message.rkey, va, message.length, need)
    except AccessError as error:
        raise access_violation(hca, qp, str(error)) from None
    try:
        _look_ahead(hca, qp, message, 0, need)
    except Held:
        qp.count(counter, -1)
        raise


def next_piece(hca: Hca, qp: Qp, message: Message, offset: int, length: int, need: int) -> Views:
    """As ``piece``, for the pieces, in order, of a message that has begun."""
    if offset and not offset % LOOK_AHEAD:
        _look_ahead(hca, qp, message, offset, need)
    return piece(hca, qp, message, offset, length, need)


def _look_ahead(hca: Hca, qp: Qp, message: Message, offset: int, need: int) -> None:
    with suppress(InPieces):
        piece(hca, qp, message, offset, min(message.length - offset, LOOK_AHEAD), need)


def whole(hca: Hca, qp: Qp, message: Message, need: int, counter: str) -> Views:
    """Map all of the range. When it is too much for one call: return () and set ``message.most``.

    A request that has to wait is repeated, and counted only then.
    """
    try:
        return piece(hca, qp, message, 0, message.length, need)
    except Held:
        qp.count(counter, -1)
        raise
    except InPieces as more:
        message.most = more.most
        return ()


def piece(hca: Hca, qp: Qp, message: Message, offset: int, length: int, need: int) -> Views:
    """The views behind a piece of (va, rkey, length).

    Raises Nak or Dropped when the request may not access them, Held when a page is absent,
    InPieces when they are too much for one call.
    """
    pd = domain_of(hca, qp, message) if qp.st is _XRC else qp.pd
    va = start_of(hca, message) + offset if hca.has_signatures else message.va + offset
    try:
        return access(hca, pd, qp.handle, message.rkey, va, length, need)
    except PageFault as page:
        raise _wait_for_page(hca, qp, message, offset, page) from None
    except InPieces:
        raise
    except AccessError as error:
        raise access_violation(hca, qp, str(error)) from None


def start_of(hca: Hca, message: Message) -> int:
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
"""The kind of page fault of an RDMA operation, and the ODP capability that it needs."""


def _wait_for_page(hca: Hca, qp: Qp, message: Message, offset: int, page: PageFault) -> Exception:
    """Make the responder wait for a page of remote memory; returns the exception to raise."""
    _, operation = _RDMA_OPERATIONS[message.op]
    if qp.state not in RECEIVING or not page_faults.may_wait(hca, qp, operation):
        return access_violation(hca, qp, str(page))

    why = f"page fault refused: {page}"

    def refuse() -> Exception:
        return access_violation(hca, qp, why)

    return Held(suspend_rdma(hca, qp, message, offset, page, refuse))


def suspend_rdma(
    hca: Hca,
    qp: Qp,
    message: Message,
    offset: int,
    page: PageFault,
    refuse: Callable[[], Exception],
) -> Fault:
    """Wait for a page of remote memory; if the responder already waits, return that page fault.

    The operation continues ``offset`` bytes after its start.
    """
    if Side.RESPONDER in qp.faults:
        return qp.faults[Side.RESPONDER]
    kind, _ = _RDMA_OPERATIONS[message.op]
    packet, done = min(message.length - offset, qp.mtu_bytes), page_faults.committed(hca, offset)
    what = Access(
        kind, packet, r_key=message.rkey, va=message.va, length=message.length, committed=done
    )
    return page_faults.suspend(hca, qp, Side.RESPONDER, what, page, refuse)


def domain_of(hca: Hca, qp: Qp, message: Message) -> Pd | None:
    """The domain whose keys a request may use; on XRC the named SRQ's (IBTA annex A14)."""
    srq = shared_queue(hca, qp, message) if qp.st is QpType.XRC else None
    return qp.pd if srq is None else srq.pd

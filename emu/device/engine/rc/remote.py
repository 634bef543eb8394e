"""Check rkey: how a responder checks and maps the (va, rkey, length) of a request.

IBTA 9.7.4.1.5, 10.6.5.2; rxe_resp.c: check_rkey. The key is checked after the queue pair's own
rights (``validation.check_op_valid``). When a page is absent the responder waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.device.engine.mr import page_faults
from emu.device.engine.mr.access import access, check
from emu.device.engine.mr.rights import (
    REMOTE_ATOMIC,
    REMOTE_READ,
    REMOTE_WRITE,
    AbsentPageError,
    AccessError,
    InPieces,
)
from emu.device.engine.mr.signature import on_wire
from emu.device.engine.qp.transitions import RECEIVING
from emu.device.engine.rc.fatal_nak import access_violation
from emu.device.engine.rc.receive import shared_queue
from emu.device.objects.domains import Pd
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.message import ATOMICS, Message, MsgOp
from emu.device.objects.queues.page_fault import FaultedAccess, Held, PageFault, PageFaultType, Side
from emu.device.objects.queues.qp import Qp
from emu.device.rounds.budget import STEPS_PER_SHARE
from layouts.enums import QpType

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

LOOK_AHEAD = 1 << 18
"""How much of a message in pieces is translated at a time. A message may have 2 GiB, and a page
fault reports all the absent pages of the range; this bounds the cost of both for each packet."""
_XRC = QpType.XRC


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """What an operation does to the responder's memory."""

    need: int
    """The right that the key must give."""
    counter: str
    """Counts the requests, in the queue pair's set."""
    page_fault: PageFaultType
    """The type of its page faults."""
    capability: str
    """The ODP capability without which it does not wait for a page."""


REMOTE: Mapping[MsgOp, RemoteAccess] = {
    MsgOp.WRITE: RemoteAccess(REMOTE_WRITE, "rx_write_requests", PageFaultType.RDMA_WRITE, "write"),
    MsgOp.READ: RemoteAccess(REMOTE_READ, "rx_read_requests", PageFaultType.RDMA_READ, "read"),
    **dict.fromkeys(
        ATOMICS,
        RemoteAccess(REMOTE_ATOMIC, "rx_atomic_requests", PageFaultType.RDMA_WRITE, "atomic"),
    ),
}
"""By operation; a SEND names no remote memory."""


def check_rkey(hca: Hca, qp: Qp, message: Message) -> Views:
    """Check the key for all of the range and map it.

    When it is too much for one call: returns () and sets ``message.most``. Raises Nak or Dropped
    when the request may not access it, Held when a page is absent. A request that has to wait is
    repeated, and counted only then.
    """
    try:
        return map_piece(hca, qp, message, 0, message.length)
    except Held:
        qp.count(REMOTE[message.op].counter, -1)
        raise
    except InPieces as more:
        message.most = more.most
        return ()


def check_rkey_only(hca: Hca, qp: Qp, message: Message) -> None:
    """Check the key for all of the range, and that its first pages are present.

    For a message in pieces, which are mapped as they come. Raises as ``check_rkey`` does.
    """
    operation, pd, va = REMOTE[message.op], domain_of(hca, qp, message), start_of(hca, message)
    try:
        check(hca, pd, qp.handle, message.rkey, (va, message.length, operation.need))
    except AccessError as error:
        raise access_violation(hca, qp, str(error)) from None
    try:
        _look_ahead(hca, qp, message, 0)
    except Held:
        qp.count(operation.counter, -1)
        raise


def map_next_piece(hca: Hca, qp: Qp, message: Message, offset: int, length: int) -> Views:
    """As ``map_piece``, for the pieces, in order, of a message that has begun."""
    if offset and not offset % LOOK_AHEAD:
        _look_ahead(hca, qp, message, offset)
    return map_piece(hca, qp, message, offset, length)


def _look_ahead(hca: Hca, qp: Qp, message: Message, offset: int) -> None:
    most = hca.round.steps + STEPS_PER_SHARE
    with suppress(InPieces):
        map_piece(hca, qp, message, offset, min(message.length - offset, LOOK_AHEAD), most)


def map_piece(
    hca: Hca, qp: Qp, message: Message, offset: int, length: int, most: int | None = None
) -> Views:
    """The views behind a piece of (va, rkey, length); ``most`` as in ``access``.

    Raises Nak or Dropped when the request may not access them, Held when a page is absent,
    InPieces when they are too much for one call.
    """
    pd = domain_of(hca, qp, message) if qp.st is _XRC else qp.pd
    va = start_of(hca, message) + offset if hca.has_signatures else message.va + offset
    try:
        span = va, length, REMOTE[message.op].need
        return access(hca, pd, qp.handle, message.rkey, span, 0, most)
    except AbsentPageError as page:
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


def domain_of(hca: Hca, qp: Qp, message: Message) -> Pd | None:
    """The domain whose keys a request may use; on XRC the named SRQ's (IBTA annex A14)."""
    srq = shared_queue(hca, qp, message) if qp.st is _XRC else None
    return qp.pd if srq is None else srq.pd


def _wait_for_page(
    hca: Hca, qp: Qp, message: Message, offset: int, page: AbsentPageError
) -> Exception:
    """Make the responder wait for a page of remote memory; returns the exception to raise."""
    if qp.state not in RECEIVING or not page_faults.may_wait(
        hca, qp, REMOTE[message.op].capability
    ):
        return access_violation(hca, qp, str(page))

    def refuse(why: str) -> Exception:
        return access_violation(hca, qp, why)

    return Held(suspend_rdma(hca, qp, message, offset, page, refuse))


def suspend_rdma(
    hca: Hca,
    qp: Qp,
    message: Message,
    offset: int,
    page: AbsentPageError,
    refuse: Callable[[str], Exception],
) -> PageFault:
    """Wait for a page of remote memory; if the responder already waits, return that page fault.

    The operation continues ``offset`` bytes after its start.
    """
    if Side.RESPONDER in qp.page_faults:
        return qp.page_faults[Side.RESPONDER]
    packet, done = min(message.length - offset, qp.mtu_bytes), page_faults.committed(hca, offset)
    what = FaultedAccess(
        REMOTE[message.op].page_fault, packet,
        r_key=message.rkey, va=message.va, length=message.length, committed=done,
    )  # fmt: skip
    return page_faults.suspend(hca, qp, Side.RESPONDER, what, page, refuse)

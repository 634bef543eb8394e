"""Remote memory: whether a request may access it, and the views of its (va, rkey, length).

check_op_valid checks the queue pair's own rights, check_rkey those of the key (IBTA 9.7.4.1.5,
10.6.5.2; rxe_resp.c: check_op_valid, check_rkey). When a page is absent the responder waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.mr import page_faults
from emu.device.engine.mr.access import access, on_wire
from emu.device.engine.mr.access_error import ABSENT_PAGE, TOO_FRAGMENTED, AccessError
from emu.device.engine.mr.checks import check_access
from emu.device.engine.qp.transitions import RECEIVING
from emu.device.engine.rc.checks import RxCheck, access_violation, invalid_request
from emu.device.engine.rc.receive import fail_receive_and_nak, shared_queue
from emu.device.objects.domains import Pd
from emu.device.objects.memory.rights import REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.message import ATOMICS, Message, MsgOp
from emu.device.objects.queues.outcome import NakCode, Outcome, TooFragmented
from emu.device.objects.queues.page_fault import FaultedAccess, PageFault, PageFaultType, Side
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_request import ReceiveRequest
from emu.device.rounds.budget import SEGMENT_BUDGET, STEPS_AHEAD
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpType

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

MAP_AHEAD_BYTES: Final = 1 << 18
"""Number of bytes of a segmented message that are translated at a time.

A message may have 2 GiB, and a page fault reports all absent pages of the range. The limit bounds
both costs for each packet.
"""
_UC: Final = QpType.UC
_XRC: Final = QpType.XRC
_WRITE: Final = MsgOp.WRITE
_READ: Final = MsgOp.READ


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """Access of an operation to the responder's memory."""

    need: int
    """Right that the key must grant."""
    counter: str
    """Counter of the requests, in the queue pair's set."""
    page_fault: PageFaultType
    """Type of its page faults."""
    capability: str
    """ODP capability that it needs to wait for a page."""


REMOTE: Final[Mapping[MsgOp, RemoteAccess]] = {
    MsgOp.WRITE: RemoteAccess(REMOTE_WRITE, "rx_write_requests", PageFaultType.RDMA_WRITE, "write"),
    MsgOp.READ: RemoteAccess(REMOTE_READ, "rx_read_requests", PageFaultType.RDMA_READ, "read"),
    **dict.fromkeys(
        ATOMICS,
        RemoteAccess(REMOTE_ATOMIC, "rx_atomic_requests", PageFaultType.RDMA_WRITE, "atomic"),
    ),
}
"""Access by operation; a SEND names no remote memory."""


def begin_rdma(hca: Hca, qp: Qp, message: Message) -> Views | Outcome:
    """Return the views of the whole range of a WRITE, READ or atomic before its first byte.

    Runs check_op_valid and check_rkey; a failed check moves the queue pair to ERR and returns its
    NAK. Other outcomes are those of ``map_segment``. Counts rx_write_requests, rx_read_requests or
    rx_atomic_requests, refused requests included. A request that waits for a page is counted when
    it is repeated.
    """
    op = message.op
    rdma = REMOTE[op]
    if qp.counter is not None:
        qp.counter.values[rdma.counter] += 1
    if not (qp.rwe if op is _WRITE else qp.rre if op is _READ else qp.rae):
        return _forbidden(hca, qp)
    if qp.st is _XRC or hca.has_signatures:
        mapped = map_segment(hca, qp, message, 0, message.length)
    else:
        try:
            span = message.va, message.length, rdma.need
            return access(hca, qp.pd, qp.handle, message.rkey, span)
        except AccessError as error:
            mapped = _not_mapped(hca, qp, message, 0, error)
    if isinstance(mapped, PageFault) and qp.counter is not None:
        qp.counter.values[rdma.counter] -= 1
    return mapped


def check_op_valid(hca: Hca, qp: Qp, message: Message) -> Outcome | None:
    """Return None if the queue pair allows this remote access (rwe, rre, rae), else the refusal.

    By IBTA a forbidden operation is an unsupported opcode: Nak (INVALID_REQUEST) and ERR, on UC
    only Dropped (9.9.3; rxe_resp.c: check_op_valid; hfi1's rc.c: nack_inv). A remote access error
    is for keys.
    """
    op = message.op
    if not (qp.rwe if op is _WRITE else qp.rre if op is _READ else qp.rae):
        return _forbidden(hca, qp)
    return None


def _forbidden(hca: Hca, qp: Qp) -> Outcome:
    """Refuse an operation that the queue pair does not allow, as ``check_op_valid``."""
    return invalid_request(
        hca, qp, RxCheck.OP_VALID, "the queue pair does not allow this operation"
    )


def check_rkey_only(hca: Hca, qp: Qp, message: Message) -> Outcome | None:
    """Return None if the key grants the whole range and its first pages are present.

    For a segmented message, whose segments are mapped on arrival: at most MAP_AHEAD_BYTES are
    mapped here. A refusal is that of ``refuse_access``. PageFault uncounts the request,
    which is repeated.
    """
    operation, pd, va = REMOTE[message.op], pd_of(hca, qp, message), start_of(hca, message)
    if isinstance(pd, Outcome):
        return pd
    try:
        check_access(hca, pd, qp.handle, message.rkey, (va, message.length, operation.need))
    except AccessError as error:
        return refuse_access(hca, qp, message.receive, str(error), error.cause)
    refused = _look_ahead(hca, qp, message, 0)
    if isinstance(refused, PageFault):
        qp.count(operation.counter, -1)
    return refused


def map_next_segment(
    hca: Hca, qp: Qp, message: Message, offset: int, length: int
) -> Views | Outcome:
    """Return the views of the next segment, in order, of a message that has started.

    At each multiple of MAP_AHEAD_BYTES the following pages are checked, too. The outcomes are those
    of ``map_segment``.
    """
    if offset and not offset % MAP_AHEAD_BYTES:
        refused = _look_ahead(hca, qp, message, offset)
        if refused is not None:
            return refused
    return map_segment(hca, qp, message, offset, length)


def data_ahead(
    hca: Hca, qp: Qp, message: Message, offset: int, length: int
) -> list[memoryview] | None:
    """Return the data of a READ from ``offset`` on, in reverse order of the views, or None.

    At most ``length`` bytes, and not those whose following pages have yet to be checked
    (``map_next_segment``): the list is then shorter, or empty. None where segments have to be
    mapped one by one: their access fails, costs more than STEPS_AHEAD, is planned to fail, or
    depends on more than the key. No state changes. Views are valid until the end of the poll.
    """
    if qp.st is _XRC or hca.has_signatures or hca.probes.faults is not None:
        return None
    size = min(length, message.length - offset, -offset % MAP_AHEAD_BYTES)
    try:
        span, limit = (message.va + offset, size, REMOTE_READ), hca.budget.steps + STEPS_AHEAD
        return [*access(hca, qp.pd, qp.handle, message.rkey, span, 0, limit)][::-1]
    except AccessError:
        return None


def _look_ahead(hca: Hca, qp: Qp, message: Message, offset: int) -> Outcome | None:
    """Return None if the next MAP_AHEAD_BYTES of the message are accessible, else the outcome.

    A range too fragmented for one call counts as accessible.
    """
    limit = hca.budget.steps + SEGMENT_BUDGET
    length = min(message.length - offset, MAP_AHEAD_BYTES)
    mapped = map_segment(hca, qp, message, offset, length, limit)
    return mapped if isinstance(mapped, Outcome) and not isinstance(mapped, TooFragmented) else None


def map_segment(
    hca: Hca, qp: Qp, message: Message, offset: int, length: int, limit: int | None = None
) -> Views | Outcome:
    """Return the views behind a segment of (va, rkey, length); ``limit`` is that of ``access``.

    A forbidden access moves the queue pair to ERR and returns Nak (REMOTE_ACCESS_ERROR), on UC only
    Dropped. An absent page returns a PageFault if the queue pair may wait. A range too much
    for one call returns TooFragmented, without an effect.
    """
    pd = qp.pd
    if qp.st is _XRC:
        domain = pd_of(hca, qp, message)
        if isinstance(domain, Outcome):
            return domain
        pd = domain
    va = start_of(hca, message) + offset if hca.has_signatures else message.va + offset
    try:
        span = va, length, REMOTE[message.op].need
        return access(hca, pd, qp.handle, message.rkey, span, 0, limit)
    except AccessError as error:
        return _not_mapped(hca, qp, message, offset, error)


def _not_mapped(hca: Hca, qp: Qp, message: Message, offset: int, error: AccessError) -> Outcome:
    """Return the outcome of ``map_segment`` for a failed access to its range."""
    if error.violation is TOO_FRAGMENTED:
        return TooFragmented(error.limit, str(error))
    if error.violation is ABSENT_PAGE:
        return _wait_for_page(hca, qp, message, offset, error)
    return refuse_access(hca, qp, message.receive, str(error), error.cause)


def needs_wqe_first(qp: Qp, message: Message) -> bool:
    """Return whether a remote access takes its receive WQE before its key is checked.

    A WRITE with immediate data in a single packet does (IBTA 9.7.4; rxe_resp.c: check_resource
    precedes check_rkey). For a longer WRITE the last packet takes the WQE, after the first has
    passed the check. UC drops a message with a wrong key, and the WQE stays.
    """
    if message.immediate is None:
        return False
    return message.length <= qp.mtu_bytes and not message.has_wqe and qp.st is not _UC


def refuse_access(
    hca: Hca, qp: Qp, receive: ReceiveRequest | None, why: str, cause: Cause = Cause.MEMORY
) -> Outcome:
    """Move the queue pair to ERR for a forbidden memory access; return REMOTE_ACCESS_ERROR's Nak.

    A receive WQE that the message already has (``receive``) completes with LOCAL_ACCESS_ERR, and no
    event is raised (IBTA 11.6.2, for WRITEs with immediate data). Otherwise the event is
    WQ_ACCESS_ERROR. On UC the result is Dropped, without an effect.
    """
    if receive is None or receive.wqe is None or qp.st is _UC:
        return access_violation(hca, qp, why, cause)
    syndrome, code = CqeSyndrome.LOCAL_ACCESS_ERR, NakCode.REMOTE_ACCESS_ERROR
    return fail_receive_and_nak(hca, qp, receive, RxCheck.RKEY, syndrome, code, why, cause)


def start_of(tables: ObjectTables, message: Message) -> int:
    """Return the message's va, corrected for signatures that only the wire has.

    Without block signatures in the function the result is ``message.va``.
    """
    if not tables.has_signatures:
        return message.va
    return on_wire(tables.mkeys, message.rkey, message.va, 0)[0]


def pd_of(hca: Hca, qp: Qp, message: Message) -> Pd | Outcome | None:
    """Return the PD whose keys a request may use; on XRC the named SRQ's (IBTA annex A14).

    Returns the outcome of ``invalid_request`` if the XRC domain has no such SRQ; the queue pair is
    then in ERR.
    """
    srq = shared_queue(hca, qp, message) if qp.st is _XRC else None
    if isinstance(srq, Outcome):
        return srq
    return qp.pd if srq is None else srq.pd


def _wait_for_page(hca: Hca, qp: Qp, message: Message, offset: int, page: AccessError) -> Outcome:
    """Return a PageFault: the responder waits for a page of remote memory.

    If the queue pair is in no receiving state or lacks the ODP capability, the access is refused as
    by ``refuse_access``. The same happens if the driver refuses the page.
    """
    if qp.state not in RECEIVING or not page_faults.may_wait(
        hca.events, hca.caps, qp, REMOTE[message.op].capability
    ):
        return refuse_access(hca, qp, message.receive, str(page))

    receive = message.receive  # the sender may free its message before the page is present

    def refuse(why: str) -> Outcome:
        return refuse_access(hca, qp, receive, why)

    return suspend_rdma(hca, qp, message, offset, page, refuse)


def suspend_rdma(
    hca: Hca,
    qp: Qp,
    message: Message,
    offset: int,
    page: AccessError,
    refuse: Callable[[str], Outcome],
) -> PageFault:
    """Suspend the responder for a page of remote memory; return the new page fault.

    If the responder waits already, return its pending page fault and raise no other. The operation
    continues ``offset`` bytes after its start. ``refuse`` is called if the driver refuses the page.
    """
    if Side.RESPONDER in qp.page_faults:
        return qp.page_faults[Side.RESPONDER]
    what = FaultedAccess(
        REMOTE[message.op].page_fault, min(message.length - offset, qp.mtu_bytes),
        r_key=message.rkey, va=message.va, length=message.length, committed=offset,
    )  # fmt: skip
    return page_faults.suspend(hca, qp, Side.RESPONDER, what, page, refuse)

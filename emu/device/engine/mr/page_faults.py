"""Page faults: who may wait for a page, the event to the driver, and the resume.

A message to a queue pair in this process is moved as a whole. After a page fault and the resume it
restarts from its beginning: nothing of it takes effect until all its pages are present. In packets
it continues after the bytes that have been transferred, and the event reports how many. A signature
adds bytes on the wire that the driver does not count: the event then reports 0.

Only the side of the queue pair that has the page fault waits. Other queue pairs, commands and the
driver's own UMR queue go on, so that it can bring the page in (hw/odp.c: mlx5_ib_pfault).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import eq as eq_engine
from emu.device.errors import CmdError
from emu.device.objects.queues.page_fault import (
    FaultedAccess,
    Page,
    PageFault,
    PageFaultTable,
    PageFaultType,
    Side,
)
from emu.device.objects.queues.qp import Qp
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import COST_OF_ENDING, FAULTS_PER_PORTION, TOLD_PER_POLL
from emu.device.state.points import FaultPoint
from layouts.enums import EventType, Opcode, QpState, QpType, Status

if TYPE_CHECKING:
    from emu.device.engine.mr.rights import AccessError
    from emu.device.objects.queues.outcome import Outcome
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

PAGE_FAULT_POINT: Final[FaultPoint[[PageFault], None]] = FaultPoint("page_fault")
RESUME_POINT: Final[FaultPoint[[PageFault, bool], None]] = FaultPoint("page_fault.resume")

FULL_QUEUE_NS: Final = 1_000_000
"""How long until a full event queue is looked at again."""

MAX_RESUMES: Final = 1000
"""After so many resumes of a page fault without the page, a warning is logged."""

_SERVICES: Final[Mapping[QpType, str]] = {
    QpType.RC: "rc_odp_caps",
    QpType.UC: "uc_odp_caps",
    QpType.UD: "ud_odp_caps",
    QpType.XRC: "xrc_odp_caps",
    QpType.DCI: "dc_odp_caps",
    QpType.DCT: "dc_odp_caps",
}

_REQUESTS: Final[Mapping[int, tuple[PageFaultType, str]]] = {
    Opcode.SEND: (PageFaultType.SEND_OR_WRITE, "send"),
    Opcode.SEND_IMM: (PageFaultType.SEND_OR_WRITE, "send"),
    Opcode.SEND_INVAL: (PageFaultType.SEND_OR_WRITE, "send"),
    Opcode.RDMA_WRITE: (PageFaultType.SEND_OR_WRITE, "write"),
    Opcode.RDMA_WRITE_IMM: (PageFaultType.SEND_OR_WRITE, "write"),
    Opcode.RDMA_READ: (PageFaultType.READ_OR_ATOMIC, "read"),
    Opcode.ATOMIC_CS: (PageFaultType.READ_OR_ATOMIC, "atomic"),
    Opcode.ATOMIC_FA: (PageFaultType.READ_OR_ATOMIC, "atomic"),
}
"""The kind of page fault of a send request, and the ODP capability that it needs.

A UMR is not here: drivers do not resolve page faults of what it reads, so it fails. Nor are masked
atomics, whose segments the driver does not know (odp.c: mlx5_ib_mr_initiator_pfault_handler).
"""


def may_wait(hca: Hca, qp: Qp, operation: str) -> bool:
    """Whether to raise a page fault: the operation has the capability and an EQ reports them."""
    service = _SERVICES.get(qp.st)
    if service is None or not hca.caps.general.pg or hca.event_eq(EventType.PAGE_FAULT) is None:
        return False
    odp = hca.caps.odp
    scheme = (
        odp.memory_page_fault_scheme_cap
        if odp.mem_page_fault
        else odp.transport_page_fault_scheme_cap
    )
    return bool(getattr(getattr(scheme, service), operation))


def request_may_wait(hca: Hca, qp: Qp, wqe: Wqe) -> bool:
    """Whether a send request may wait for a page of its own.

    One of the adapter's own may not: a driver looks for the request in the ring.
    """
    request = _REQUESTS.get(wqe.opcode)
    return request is not None and bool(wqe.blocks) and may_wait(hca, qp, request[1])


def request_access(hca: Hca, qp: Qp, wqe: Wqe, done: int = 0) -> FaultedAccess:
    """The event's description of a send request; ``done`` as for ``committed``."""
    kind, _ = _REQUESTS[wqe.opcode]
    done = committed(hca, done)
    return FaultedAccess(kind, 0, number=qp.handle, wqe_index=wqe.index, committed=done)


def committed(hca: Hca, done: int) -> int:
    """The event's bytes_committed when ``done`` bytes have been transferred on the wire."""
    return 0 if hca.has_signatures else done


def suspend(
    hca: Hca,
    qp: Qp,
    side: Side,
    access: FaultedAccess,
    page: AccessError,
    refuse: Callable[[str], Outcome | None],
) -> PageFault:
    """Let one side of a queue pair wait, and tell the driver. Call ``may_wait`` first.

    ``refuse`` as for ``PageFault``.
    """
    absent = Page(page.key, page.va, page.length)
    _watch_repetition(qp, side, absent)
    fault = PageFault(qp, side, access, absent, refuse)
    fault.is_memory = bool(hca.caps.odp.mem_page_fault)
    fault.raised_ns = hca.clock.now_ns()
    hca.page_faults.add(fault)
    qp.page_faults[side] = fault
    log.debug("%r: %s", fault, fault.page)
    if hca.faults is None:
        announce(hca, fault)
    else:
        hca.faults.show(PAGE_FAULT_POINT, fault)
    return fault


def _watch_repetition(qp: Qp, side: Side, page: Page) -> None:
    """Log once when a driver keeps resuming the same page fault without mapping the page."""
    last, times = qp.repeated_page_faults.get(side, (None, 0))
    times = times + 1 if page == last else 1
    qp.repeated_page_faults[side] = page, times
    if times == MAX_RESUMES:
        log.warning(
            "%r: the driver has resumed this page fault %d times without mapping the page: %s",
            qp,
            times,
            page,
        )


def announce(hca: Hca, fault: PageFault) -> None:
    """Post the event once its queue has room, in the order of the page faults."""
    faults = hca.page_faults
    faults.untold[fault.token] = fault
    if faults.timer is None:
        _tell(hca)


def _tell(hca: Hca) -> None:
    """Post some of the waiting events, as far as there is room for them."""
    faults, told = hca.page_faults, 0
    faults.timer = None
    while faults.untold:
        fault = next(iter(faults.untold.values()))
        eq = hca.event_eq(EventType.PAGE_FAULT)
        is_full = eq is not None and eq.is_full
        if is_full or told == TOLD_PER_POLL:
            delay_ns = FULL_QUEUE_NS if is_full else 0
            faults.timer = hca.clock.call_later(delay_ns, lambda: _tell(hca))
            return
        told += 1
        if eq is None:
            end(hca, fault, refused=True)
        else:
            del faults.untold[fault.token]
            sub_type, data = fault.event()
            eq_engine.post(hca, eq, EventType.PAGE_FAULT, sub_type, data)


def resume(hca: Hca, token: int, error: bool, named: tuple[int, int] | None = None) -> None:
    """PAGE_FAULT_RESUME. ``named`` is type and number, in the transport scheme.

    Does nothing if the queue pair of the page fault has stopped meanwhile. Raises BAD_RES_ERR for a
    token that is not open, and BAD_PARAM_ERR if type or number are those of another page fault.
    """
    fault = hca.page_faults.find(token)
    if fault is None:
        if hca.page_faults.forget(token):
            return
        raise CmdError(Status.BAD_RES_ERR, "no such page fault", f"token {token:#x}")
    if named is not None and not fault.is_named_by(*named):
        raise CmdError(
            Status.BAD_PARAM_ERR, "page fault is of another type or queue", f"{fault!r}, {named}"
        )
    if hca.faults is None:
        end(hca, fault, refused=error)
    else:
        hca.faults.show(RESUME_POINT, fault, error)


def end(hca: Hca, fault: PageFault, *, refused: bool) -> None:
    """Close an open page fault: its operation is tried again, or fails if ``refused``."""
    hca.page_faults.close(fault)
    del fault.qp.page_faults[fault.side]
    _trace(hca, fault, "error" if refused else "resumed")
    answer = None
    if refused:
        answer = fault.refuse(fault.refusal(hca.clock.now_ns() - fault.raised_ns))
    if fault.go_on is not None:
        fault.go_on(answer)


def cancel(hca: Hca, qp: Qp, *sides: Side) -> None:
    """The queue pair stops, or one side of it: cancel its page faults.

    It does not wait for its peer's any more, either.
    """
    if Side.RESPONDER not in sides and qp.held_by is not None:
        qp.held_by.release(qp)
    for side in sides or Side:
        fault = qp.page_faults.pop(side, None)
        if fault is not None:
            _lapse(hca, fault)
            if fault.go_on is not None:
                fault.go_on(None)


def _lapse(hca: Hca, fault: PageFault) -> None:
    table = fault.table
    assert table is not None  # it is open
    table.lapse(fault)
    _trace(hca, fault, "cancelled")


def cancel_all(hca: Hca) -> None:
    """The function stops: cancel all page faults, whoever waits. Tokens told before mean nothing.

    There may be many: some in each round. Responders of DC targets are among those who wait, and
    they are in no table.
    """
    table, hca.page_faults = hca.page_faults, hca.page_faults.renewed()
    if table.timer is not None:
        table.timer.cancel()
    if len(table):
        hca.deferred_free.add_work(_cancel_each(hca, table))


def _cancel_each(hca: Hca, table: PageFaultTable) -> Iterator[int]:
    """Cancel page faults of queue pairs that are gone; yields what each costs, in objects freed.

    A peer that waits for one in this process may go on.
    """
    for fault in table.open():
        if fault.is_open:
            fault.qp.state = QpState.RST
            del fault.qp.page_faults[fault.side]
            _lapse(hca, fault)
            if fault.peer is not None and fault.go_on is not None:
                fault.go_on(None)
        yield COST_OF_ENDING


def give_up(hca: Hca) -> Portions[None]:
    """No EQ reports page faults any more: fail all open ones, unless another EQ begins to."""
    for number, fault in enumerate(hca.page_faults.open(), 1):
        if fault.is_open and hca.event_eq(EventType.PAGE_FAULT) is None:
            end(hca, fault, refused=True)
        if not number % FAULTS_PER_PORTION:
            yield


def _trace(hca: Hca, fault: PageFault, outcome: str) -> None:
    if hca.tracer:
        hca.tracer.page_fault(fault, outcome, hca.clock.now_ns() - fault.raised_ns)

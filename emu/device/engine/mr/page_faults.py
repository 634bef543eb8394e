"""Page faults: which operations may wait for a page, the event to the driver, and the resume.

A message to a queue pair in this process is moved as a whole. After a page fault and the resume it
restarts from its beginning: it has no effect until all its pages are present. In packets it
continues after the transferred bytes, whose number the event reports. A signature adds bytes on the
wire that the driver does not count: the event then reports 0.

Only the side of the queue pair that has the page fault waits. Other queue pairs, commands and the
driver's own UMR queue continue, so that the driver can map the page (hw/odp.c: mlx5_ib_pfault).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import eq as eq_engine
from emu.device.errors import BadParamError, CmdError
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
from emu.device.rounds.sizes import COST_OF_ENDING, EVENTS_PER_POLL, FAULTS_PER_PORTION
from emu.device.state.points import FaultPoint
from layouts.enums.cmd import Status
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode

if TYPE_CHECKING:
    from emu.device.engine.mr.access_error import AccessError
    from emu.device.objects.queues.outcome import Outcome
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.ports import Clock
    from emu.device.state.caps import Caps
    from emu.device.state.events import Events
    from emu.device.state.hca import Hca
    from emu.device.state.probes import Probes

log = logging.getLogger(__name__)

PAGE_FAULT_POINT: Final[FaultPoint[[PageFault], None]] = FaultPoint("page_fault")
RESUME_POINT: Final[FaultPoint[[PageFault, bool], None]] = FaultPoint("page_fault.resume")

_PAGE_FAULT: Final = EventType.PAGE_FAULT

FULL_QUEUE_NS: Final = 1_000_000
"""Interval in nanoseconds between checks of a full event queue."""

MAX_RESUMES: Final = 1000
"""Number of resumes of a page fault without the page after which a warning is logged."""

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
"""Kind of page fault of a send request, and the ODP capability that it needs.

A UMR has no entry: drivers do not resolve page faults of the memory that it reads, so it fails.
Masked atomics have none either: the driver does not know their segments (odp.c:
mlx5_ib_mr_initiator_pfault_handler).
"""


def may_wait(events: Events, caps: Caps, qp: Qp, operation: str) -> bool:
    """Return whether a queue pair may raise a page fault for an operation of its service.

    True needs the capability pg, an EQ that subscribes to PAGE_FAULT, and the service's ODP
    capability of that name, such as "send", "receive" or "atomic".
    """
    if events.subscribers.get(_PAGE_FAULT) is None:
        return False
    permitted = caps.odp_operations.get((qp.st, operation))
    if permitted is None:
        permitted = caps.odp_operations[qp.st, operation] = _has_capability(caps, qp.st, operation)
    return permitted


def _has_capability(caps: Caps, service: QpType, operation: str) -> bool:
    """Return the ODP capability of an operation of a service, in the driver's scheme."""
    name, odp = _SERVICES.get(service), caps.odp
    if name is None or not caps.general.pg:
        return False
    scheme = (
        odp.memory_page_fault_scheme_cap
        if caps.is_memory_scheme
        else odp.transport_page_fault_scheme_cap
    )
    return bool(getattr(getattr(scheme, name), operation))


def request_may_wait(events: Events, caps: Caps, qp: Qp, wqe: Wqe) -> bool:
    """Return whether a send request may wait for an absent page of its own memory.

    UMRs and masked atomics never may. The adapter's own requests may not either: a driver searches
    the ring for the request.
    """
    request = _REQUESTS.get(wqe.opcode)
    return request is not None and bool(wqe.blocks) and may_wait(events, caps, qp, request[1])


def request_access(qp: Qp, wqe: Wqe, done: int = 0) -> FaultedAccess:
    """Return the event's description of a send request, ``done`` bytes of which are transferred.

    Raises KeyError for an opcode that never waits (see ``request_may_wait``).
    """
    kind, _ = _REQUESTS[wqe.opcode]
    return FaultedAccess(kind, 0, qp.handle, wqe.index, committed=done)


def suspend(
    hca: Hca,
    qp: Qp,
    side: Side,
    access: FaultedAccess,
    page: AccessError,
    refuse: Callable[[str], Outcome | None],
) -> PageFault:
    """Open a page fault for one side of a queue pair, notify the driver, and return the fault.

    Call ``may_wait`` first. ``refuse`` is that of ``PageFault``; the caller, or the caller of the
    step that returns the fault, adds the retry by ``PageFault.wait``. The driver gets PAGE_FAULT
    once its EQ has space, unless a fault plan delays the event.
    """
    if hca.has_signatures:  # the driver does not count their bytes on the wire
        access = access._replace(committed=0)
    absent = Page(page.key, page.va, page.length)
    _watch_repetition(qp, side, absent)
    fault = PageFault(qp, side, access, absent, refuse)
    fault.is_memory = hca.caps.is_memory_scheme
    fault.raised_ns = hca.clock.now_ns()
    hca.page_faults.add(fault)
    log.debug("%r: %s", fault, fault.page)
    if hca.probes.faults is None:
        post_event(hca.events, fault)
    else:
        hca.probes.faults.show(PAGE_FAULT_POINT, fault)
    return fault


def _watch_repetition(qp: Qp, side: Side, page: Page) -> None:
    """Log one warning when a driver has resumed the same page fault MAX_RESUMES times.

    The page fault is raised all the same.
    """
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


def post_event(events: Events, fault: PageFault) -> None:
    """Post the PAGE_FAULT event once the EQ has space, in the order of the page faults.

    Without a subscribed EQ the page fault is refused.
    """
    faults = fault.table
    assert faults is not None  # set while the fault is open
    faults.unreported[fault.token] = fault
    if faults.timer is None:
        _post_events(events, faults)


def _post_events(events: Events, faults: PageFaultTable) -> None:
    """Post some of the waiting events, until the EQ is full; a timer continues.

    Without a subscribed EQ the waiting page faults are refused.
    """
    posted = 0
    faults.timer = None
    while faults.unreported:
        fault = next(iter(faults.unreported.values()))
        eq = events.subscribers.get(_PAGE_FAULT)
        is_full = eq is not None and eq_engine.is_full(eq)
        if is_full or posted == EVENTS_PER_POLL:
            delay_ns = FULL_QUEUE_NS if is_full else 0
            faults.timer = events.clock.call_later(delay_ns, lambda: _post_events(events, faults))
            return
        posted += 1
        if eq is None:
            close(events, fault, refused=True)
        else:
            del faults.unreported[fault.token]
            sub_type, data = fault.event()
            eq_engine.post(events, eq, _PAGE_FAULT, sub_type, data)


def resume(
    events: Events,
    faults: PageFaultTable,
    token: int,
    error: bool,
    named: tuple[int, int] | None = None,
) -> None:
    """Process PAGE_FAULT_RESUME: end the page fault, refused if ``error``.

    ``named`` is type and number, in the transport scheme. Raise BAD_RES_ERR for a token that is not
    open, and BAD_PARAM_ERR if type or number are those of another page fault. Do nothing if the
    queue pair of the page fault has stopped meanwhile; the token then becomes invalid. A fault plan
    may delay the end.
    """
    fault = faults.find(token)
    if fault is None:
        if faults.forget_lapsed(token):
            return
        raise CmdError(Status.BAD_RES_ERR, "no such page fault", f"token {token:#x}")
    if named is not None and not fault.is_named_by(*named):
        raise BadParamError("page fault is of another type or queue", f"{fault!r}, {named}")
    if events.probes.faults is None:
        close(events, fault, refused=error)
    else:
        events.probes.faults.show(RESUME_POINT, fault, error)


def close(events: Events, fault: PageFault, *, refused: bool) -> None:
    """Close an open page fault: retry its operation, or fail the operation if ``refused``.

    ``PageFault.end`` has the steps.
    """
    table = fault.table
    assert table is not None  # set while the fault is open
    table.close(fault)
    if events.probes.tracer:
        _trace(events.probes, events.clock, fault, "error" if refused else "resumed")
    fault.end(fault.refusal_text(events.clock.now_ns() - fault.raised_ns) if refused else "")


def cancel(probes: Probes, clock: Clock, qp: Qp, *sides: Side) -> None:
    """Cancel the page faults of a queue pair that stops, or of the given sides only.

    Waiting operations neither retry nor fail here; a waiting peer in this process goes on. The
    driver may still resume the faults, without effect. Unless only the responder stops, the queue
    pair also stops waiting for its peer's page fault.
    """
    if Side.RESPONDER not in sides and qp.held_by is not None:
        qp.held_by.release(qp)
    for side in sides or Side:
        fault = qp.page_faults.get(side)
        if fault is not None:
            _lapse(probes, clock, fault)
            fault.end()


def _lapse(probes: Probes, clock: Clock, fault: PageFault) -> None:
    """Close a page fault without a retry; its token stays valid for one late resume."""
    table = fault.table
    assert table is not None  # set while the fault is open
    table.lapse(fault)
    _trace(probes, clock, fault, "cancelled")


def cancel_all(hca: Hca) -> None:
    """Cancel all page faults of a stopping function; their tokens become invalid.

    The table may be large: some are cancelled in each round. Responders of DC targets also wait,
    and they are in no table.
    """
    table, hca.page_faults = hca.page_faults, hca.page_faults.renewed()
    if table.timer is not None:
        table.timer.cancel()
    if len(table):
        hca.deferred_free.add_work(_cancel_each(hca.probes, hca.clock, table))


def _cancel_each(probes: Probes, clock: Clock, table: PageFaultTable) -> Iterator[int]:
    """Cancel page faults of freed queue pairs; yield the cost of each, in objects freed.

    A peer in this process that waits for one may continue.
    """
    for fault in table.open():
        if fault.is_open:
            fault.qp.state = QpState.RST
            _lapse(probes, clock, fault)
            if fault.peer is not None:
                fault.end()
        yield COST_OF_ENDING


def refuse_all(events: Events, faults: PageFaultTable) -> Portions[None]:
    """Refuse all open page faults, in several steps, unless another EQ subscribes meanwhile."""
    for number, fault in enumerate(faults.open(), 1):
        if fault.is_open and events.subscribers.get(_PAGE_FAULT) is None:
            close(events, fault, refused=True)
        if not number % FAULTS_PER_PORTION:
            yield


def _trace(probes: Probes, clock: Clock, fault: PageFault, outcome: str) -> None:
    if probes.tracer:
        probes.tracer.page_fault(fault, outcome, clock.now_ns() - fault.raised_ns)

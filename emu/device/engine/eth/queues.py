"""States of Ethernet send and receive queues: RST, RDY, ERR, and the effects of each change.

In ERR every WQE, already posted or posted later, completes with WR_FLUSH_ERR if the context has
flush_in_error_en. The driver then takes the queue through RST, where both sides count from 0 again
(core/en/reporter_tx.c: mlx5e_tx_reporter_err_cqe_recover). Posting a receive WQE rings no doorbell.
A receive queue in ERR therefore polls its doorbell record by timer, like a QP.

Source: PRM "Send queue", "Receive queue"; mlx5_ifc.h: sqc.state, rqc.state.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import completions
from emu.device.engine.events import eq as eq_engine
from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.events.held import write_held
from emu.device.engine.qp.events import break_srq
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.sq import AnySq, Sq
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.receive_queue import ListBrokenError
from emu.device.ports import DmaError
from emu.device.rounds.sizes import FLUSHED_PER_POLL
from emu.device.state.error_queue_poller import INTERVAL_NS
from emu.device.state.polls import polls
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.wq import RqState, SqState

if TYPE_CHECKING:
    from emu.device.state.completions import Completions
    from emu.device.state.events import Events
    from emu.device.state.hca import Hca
    from emu.device.state.parts.scheduler import Scheduler

log = logging.getLogger(__name__)


MIN_POLL_NS: Final = 1_000_000
MAX_POLL_NS: Final = INTERVAL_NS
"""Shortest and longest interval at which a receive queue in ERR polls for new WQEs."""

_RQ_EVENT: Final = 1
_SQ_EVENT: Final = 2
"""Queue type in an event (driver.h: mlx5_event_queue_type)."""
_EVENT_DATA: Final = Struct(">20xB3xI")

SQ_TRANSITIONS: Final[Mapping[SqState, tuple[SqState, ...]]] = {
    SqState.RST: (SqState.RST, SqState.RDY, SqState.ERR),
    SqState.RDY: (SqState.RDY, SqState.ERR, SqState.RST),
    SqState.ERR: (SqState.ERR, SqState.RST),
}
RQ_TRANSITIONS: Final[Mapping[RqState, tuple[RqState, ...]]] = {
    RqState.RST: (RqState.RST, RqState.RDY, RqState.ERR),
    RqState.RDY: (RqState.RDY, RqState.ERR, RqState.RST),
    RqState.ERR: (RqState.ERR, RqState.RST),
}
"""The states that a command may set, by current state."""


# -- send queues


def enter_sq(scheduler: Scheduler, sq: AnySq, state: SqState) -> None:
    """Change a send queue's state by command; do nothing if the state is the current one.

    Cancel its waiting. RST resets its counters. ERR schedules the flush of its posted WQEs. The
    caller has checked SQ_TRANSITIONS.
    """
    if state is sq.state:
        return
    sq.state, sq.has_failed = state, False
    stop_pacing(sq)
    if state is SqState.RST:
        sq.restart()
    elif state is SqState.ERR:
        scheduler.schedule(sq)


def fail(
    cqes: Completions,
    scheduler: Scheduler,
    sq: Sq,
    index: int,
    opcode: int,
    syndrome: CqeSyndrome,
    why: str,
    cause: Cause = Cause.ANY,
) -> None:
    """Write a REQ_ERR CQE for a WQE and move the send queue to ERR.

    The driver then recovers the queue (core/en_tx.c: mlx5e_poll_tx_cq).
    """
    log.warning("%r: wqe %d: %s: %s", sq, index, syndrome.name, why)
    completions.fail_send(cqes, sq.cq, sq, syndrome, index, opcode, cause)
    stop_sq(scheduler, sq)


def break_sq(scheduler: Scheduler, events: Events, sq: Sq, why: Exception) -> None:
    """Raise WQ_CATAS_ERROR for a send queue whose ring cannot be read, and move it to ERR.

    No CQE is written, because no WQE can be named.
    """
    log.warning("%r: send queue is broken: %s", sq, why)
    raise_event(events, sq, EventType.WQ_CATAS_ERROR)
    stop_sq(scheduler, sq)


def stop_sq(scheduler: Scheduler, sq: Sq) -> None:
    """Move a send queue from RDY to ERR, by the device itself; do nothing in another state.

    The next poll flushes its posted WQEs.
    """
    if sq.state is SqState.RDY:
        log.info("%r: to ERR", sq)
        sq.state, sq.has_failed = SqState.ERR, True
        stop_pacing(sq)
        scheduler.schedule(sq)


def stop_pacing(sq: AnySq) -> None:
    """Cancel the queue's timer and release its share of common rates."""
    sq.stop_waiting()
    if sq.pacing is not None:
        sq.pacing.stop_waiting()


def flush_sq(cqes: Completions, sq: Sq) -> bool:
    """Complete up to FLUSHED_PER_POLL posted WQEs with WR_FLUSH_ERR; return whether to poll again.

    Return False without flush_in_error_en: no WQE completes. Return False also for an unreadable
    ring, which is only logged.
    """
    if not sq.flush_in_error:
        return False
    left = FLUSHED_PER_POLL
    try:
        for ctrl in islice(sq.ring.drain(), FLUSHED_PER_POLL):
            left -= 1
            completions.fail_send(
                cqes, sq.cq, sq, CqeSyndrome.WR_FLUSH_ERR, ctrl >> 8 & 0xFFFF, ctrl & 0xFF
            )
    except DmaError as error:
        log.warning("%r: send queue cannot be flushed: %s", sq, error)
        return False
    return not left


# -- receive queues


def enter_rq(hca: Hca, rq: Rq, state: RqState) -> None:
    """Change a receive queue's state by command; do nothing if the state is the current one.

    Write the CQ's held packets, and drop packets held for merging. RST resets counters and strides
    of a queue without an RMP. ERR starts to flush posted WQEs. The caller has checked
    RQ_TRANSITIONS.
    """
    if state is rq.state:
        return
    if rq.cq is not None:
        write_held(hca.cqes, rq.cq)
    hca.sessions.forget(rq)
    rq.state, rq.has_failed = state, False
    rq.stop_waiting()
    if state is RqState.RST and rq.rmp is None:
        rq.queue.restart()
        if rq.strides is not None:
            rq.strides.abandon()
        if rq.reservations is not None:
            rq.reservations.restart()
    elif state is RqState.ERR:
        _begin_flush(hca.scheduler, rq)


def stop_rq(scheduler: Scheduler, rq: Rq) -> None:
    """Move a receive queue from RDY to ERR, by the device itself; do nothing in another state.

    Posted WQEs are then flushed.
    """
    if rq.state is RqState.RDY:
        log.info("%r: to ERR", rq)
        rq.state, rq.has_failed = RqState.ERR, True
        _begin_flush(scheduler, rq)


def fail_receive(hca: Hca, rq: Rq, index: int, why: str, cause: Cause = Cause.ANY) -> None:
    """Complete a receive WQE with LOCAL_PROT_ERR because of its keys, and move the queue to ERR.

    The driver then takes the queue through RST (core/en/reporter_rx.c).
    """
    log.warning("%r: receive request %d fails: %s", rq, index, why)
    if rq.strides is not None:
        rq.strides.abandon()
    assert rq.cq is not None  # a hairpin has no requests
    completions.fail_receive(
        hca.cqes, hca.srqs, rq.cq, rq, CqeSyndrome.LOCAL_PROT_ERR, index, cause=cause
    )
    stop_rq(hca.scheduler, rq)


def break_rq(scheduler: Scheduler, events: Events, rq: Rq, why: Exception) -> None:
    """Raise WQ_CATAS_ERROR for a receive queue whose WQEs cannot be read, and move it to ERR.

    An RMP breaks too, with an event of its own.
    """
    log.warning("%r: receive queue is broken: %s", rq, why)
    if rq.rmp is not None:
        break_srq(events, rq.rmp)
    raise_event(events, rq, EventType.WQ_CATAS_ERROR)
    stop_rq(scheduler, rq)


def _begin_flush(scheduler: Scheduler, rq: Rq) -> None:
    rq.poll_interval_ns = MIN_POLL_NS
    scheduler.schedule(rq)


@polls(Rq)
def flush_rq(hca: Hca, rq: Rq) -> bool:
    """Complete posted WQEs of a queue in ERR with WR_FLUSH_ERR; return whether to poll again now.

    When none is left, a timer polls again later, at growing intervals. Do nothing in other states,
    for hairpins, and without flush_in_error_en. The WQEs of an RMP are not flushed, because other
    queues receive from it.
    """
    is_flushed = rq.flush_in_error and rq.rmp is None
    if rq.state is not RqState.ERR or rq.cq is None or not is_flushed:
        return False
    flushed = 0
    current = rq.strides.abandon() if rq.strides is not None else None
    if current is not None:
        flushed += 1
        completions.fail_receive(
            hca.cqes, hca.srqs, rq.cq, rq, CqeSyndrome.WR_FLUSH_ERR, current.index
        )
    try:
        for _ in range(min(rq.queue.posted(), FLUSHED_PER_POLL)):
            wqe = rq.queue.take()
            if wqe is None:
                break
            flushed += 1
            completions.fail_receive(
                hca.cqes, hca.srqs, rq.cq, rq, CqeSyndrome.WR_FLUSH_ERR, wqe.index
            )
    except (DmaError, ListBrokenError) as error:
        log.warning("%r: receive queue cannot be flushed: %s", rq, error)
        return False
    if flushed >= FLUSHED_PER_POLL:
        return True
    rq.poll_interval_ns = MIN_POLL_NS if flushed else min(rq.poll_interval_ns * 2, MAX_POLL_NS)
    rq.stop_waiting()
    again = partial(hca.scheduler.schedule, rq)
    if rq.poll_interval_ns < MAX_POLL_NS:
        rq.timer = hca.clock.call_later(rq.poll_interval_ns, again)
    else:
        rq.timer = hca.lifetime.error_queue_poller.add(again)
    return False


# -- both


def raise_event(events: Events, queue: AnySq | Rq, event: EventType) -> None:
    """Raise an asynchronous event of a queue (ib/qpc.c: rsc_event_notifier)."""
    kind = _SQ_EVENT if isinstance(queue, AnySq) else _RQ_EVENT
    eq_engine.raise_event(events, event, _EVENT_DATA.pack(kind, queue.handle))


def stop_users(hca: Hca, broken: Collection[Cq]) -> Iterator[bool]:
    """Move to ERR the queues in RDY that report to CQs which take no more completions.

    Each one raises WQ_CATAS_ERROR. Yields for each queue examined whether it has been stopped.
    """
    for sq in list(hca.sqs):
        is_stopped = False
        if isinstance(sq, Sq) and sq.cq in broken and sq.state is SqState.RDY:
            is_stopped = hca.sqs.get(sq.handle) is sq
            if is_stopped:
                log.warning("%r: to ERR: %r takes no completions", sq, sq.cq)
                raise_event(hca.events, sq, EventType.WQ_CATAS_ERROR)
                stop_sq(hca.scheduler, sq)
        yield is_stopped
    for rq in list(hca.rqs):
        is_stopped = rq.cq in broken and rq.state is RqState.RDY and hca.rqs.get(rq.handle) is rq
        if is_stopped:
            log.warning("%r: to ERR: %r takes no completions", rq, rq.cq)
            raise_event(hca.events, rq, EventType.WQ_CATAS_ERROR)
            stop_rq(hca.scheduler, rq)
        yield is_stopped

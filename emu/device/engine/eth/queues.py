"""States of Ethernet send and receive queues: RST, RDY, ERR, and what each change does.

In ERR every request that is posted, now or later, completes with WR_FLUSH_ERR if the context has
flush_in_error_en. The driver then takes the queue through RST, where both sides count from 0 again
(core/en/reporter_tx.c: mlx5e_tx_reporter_err_cqe_recover). As with a queue pair, posting a receive
rings no doorbell, so a receive queue in ERR looks at its doorbell record by timer.

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
from emu.device.engine.events.cq import settle
from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.qp.events import break_srq
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.sq import AnySq, Sq
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.receive_queue import ListBrokenError
from emu.device.ports import DmaError
from emu.device.rounds.sizes import FLUSHED_PER_POLL
from emu.device.state.error_queue_poller import INTERVAL_NS
from emu.device.state.polls import polls
from layouts.enums import CqeSyndrome, EventType
from layouts.eth_enums import RqState, SqState

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)


FIRST_LOOK_NS: Final = 1_000_000
LAST_LOOK_NS: Final = INTERVAL_NS
"""How long after the last look a receive queue in ERR looks for requests that were posted since."""

_RQ_EVENT: Final = 1
_SQ_EVENT: Final = 2
"""Whose number an event carries (driver.h: mlx5_event_queue_type)."""
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
"""To which states each state may change by command."""


# -- send queues


def enter_sq(hca: Hca, sq: AnySq, state: SqState) -> None:
    """A command has moved the queue to ``state``, which may be the one that it is in."""
    if state is sq.state:
        return
    sq.state, sq.has_failed = state, False
    stop_pacing(sq)
    if state is SqState.RST:
        sq.restart()
    elif state is SqState.ERR:
        hca.schedule(sq)


def fail(
    hca: Hca,
    sq: Sq,
    index: int,
    opcode: int,
    syndrome: CqeSyndrome,
    why: str,
    cause: Cause = Cause.ANY,
) -> None:
    """A request completes in error, and the queue stops (core/en_tx.c: mlx5e_poll_tx_cq)."""
    log.warning("%r: wqe %d: %s: %s", sq, index, syndrome.name, why)
    completions.fail_send(hca, sq.cq, sq, syndrome, index, opcode, cause)
    stop_sq(hca, sq)


def break_sq(hca: Hca, sq: Sq, why: Exception) -> None:
    """The ring itself cannot be read: an event, as no completion can name a request."""
    log.warning("%r: send queue is broken: %s", sq, why)
    raise_event(hca, sq, EventType.WQ_CATAS_ERROR)
    stop_sq(hca, sq)


def stop_sq(hca: Hca, sq: Sq) -> None:
    """The device itself moves the queue to ERR."""
    if sq.state is SqState.RDY:
        log.info("%r: to ERR", sq)
        sq.state, sq.has_failed = SqState.ERR, True
        stop_pacing(sq)
        hca.schedule(sq)


def stop_pacing(sq: AnySq) -> None:
    """The queue waits for nothing, and takes no share of what others may send."""
    sq.stop_waiting()
    if sq.pacing is not None:
        sq.pacing.rest()


def flush_sq(hca: Hca, sq: Sq) -> bool:
    """Complete some of what is posted with WR_FLUSH_ERR; True when there may be more."""
    if not sq.ctx.flush_in_error_en:
        return False
    left = FLUSHED_PER_POLL
    try:
        for ctrl in islice(sq.ring.drain(), FLUSHED_PER_POLL):
            left -= 1
            completions.fail_send(
                hca, sq.cq, sq, CqeSyndrome.WR_FLUSH_ERR, ctrl >> 8 & 0xFFFF, ctrl & 0xFF
            )
    except DmaError as error:
        log.warning("%r: send queue cannot be flushed: %s", sq, error)
        return False
    return not left


# -- receive queues


def enter_rq(hca: Hca, rq: Rq, state: RqState) -> None:
    """A command has moved the queue to ``state``, which may be the one that it is in."""
    if state is rq.state:
        return
    if rq.cq is not None:
        settle(hca, rq.cq)
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
        _begin_flush(hca, rq)


def stop_rq(hca: Hca, rq: Rq) -> None:
    """The device itself moves the queue to ERR."""
    if rq.state is RqState.RDY:
        log.info("%r: to ERR", rq)
        rq.state, rq.has_failed = RqState.ERR, True
        _begin_flush(hca, rq)


def fail_receive(hca: Hca, rq: Rq, index: int, why: str, cause: Cause = Cause.ANY) -> None:
    """A request cannot be filled because of its keys: it completes in error, the queue stops.

    The driver then takes the queue through RST (core/en/reporter_rx.c).
    """
    log.warning("%r: receive request %d fails: %s", rq, index, why)
    if rq.strides is not None:
        rq.strides.abandon()
    assert rq.cq is not None  # a hairpin has no requests
    completions.fail_receive(hca, rq.cq, rq, CqeSyndrome.LOCAL_PROT_ERR, index, cause=cause)
    stop_rq(hca, rq)


def break_rq(hca: Hca, rq: Rq, why: Exception) -> None:
    """Receive requests cannot be read: an event for each queue concerned, and the RQ stops."""
    log.warning("%r: receive queue is broken: %s", rq, why)
    if rq.rmp is not None:
        break_srq(hca, rq.rmp)
    raise_event(hca, rq, EventType.WQ_CATAS_ERROR)
    stop_rq(hca, rq)


def _begin_flush(hca: Hca, rq: Rq) -> None:
    rq.look_ns = FIRST_LOOK_NS
    hca.schedule(rq)


@polls(Rq)
def flush_rq(hca: Hca, rq: Rq) -> bool:
    """In ERR, complete some of what is posted with WR_FLUSH_ERR; True when there may be more.

    When there is no more, it looks again later. The requests of an RMP are not flushed: other
    queues receive from it, too.
    """
    if (
        rq.state is not RqState.ERR
        or rq.rmp is not None
        or rq.cq is None
        or not rq.ctx.flush_in_error_en
    ):
        return False
    flushed = 0
    begun = rq.strides.abandon() if rq.strides is not None else None
    if begun is not None:
        flushed += 1
        completions.fail_receive(hca, rq.cq, rq, CqeSyndrome.WR_FLUSH_ERR, begun.index)
    try:
        for _ in range(min(rq.queue.posted(), FLUSHED_PER_POLL)):
            wqe = rq.queue.take()
            if wqe is None:
                break
            flushed += 1
            completions.fail_receive(hca, rq.cq, rq, CqeSyndrome.WR_FLUSH_ERR, wqe.index)
    except (DmaError, ListBrokenError) as error:
        log.warning("%r: receive queue cannot be flushed: %s", rq, error)
        return False
    if flushed >= FLUSHED_PER_POLL:
        return True
    rq.look_ns = FIRST_LOOK_NS if flushed else min(rq.look_ns * 2, LAST_LOOK_NS)
    rq.stop_waiting()
    again = partial(hca.schedule, rq)
    if rq.look_ns < LAST_LOOK_NS:
        rq.timer = hca.clock.call_later(rq.look_ns, again)
    else:
        rq.timer = hca.seldom_looks.add(again)
    return False


# -- both


def raise_event(hca: Hca, queue: AnySq | Rq, event: EventType) -> None:
    """Raise an asynchronous event of a queue (ib/qpc.c: rsc_event_notifier)."""
    kind = _SQ_EVENT if isinstance(queue, AnySq) else _RQ_EVENT
    eq_engine.raise_event(hca, event, _EVENT_DATA.pack(kind, queue.handle))


def stop_users(hca: Hca, broken: Collection[Cq]) -> Iterator[bool]:
    """These CQs take no more completions: stop the queues that report to them.

    Yields for each queue looked at whether it has been stopped.
    """
    for sq in list(hca.sqs):
        is_stopped = False
        if isinstance(sq, Sq) and sq.cq in broken and sq.state is SqState.RDY:
            is_stopped = hca.sqs.get(sq.handle) is sq
            if is_stopped:
                log.warning("%r: to ERR: %r takes no completions", sq, sq.cq)
                raise_event(hca, sq, EventType.WQ_CATAS_ERROR)
                stop_sq(hca, sq)
        yield is_stopped
    for rq in list(hca.rqs):
        is_stopped = rq.cq in broken and rq.state is RqState.RDY and hca.rqs.get(rq.handle) is rq
        if is_stopped:
            log.warning("%r: to ERR: %r takes no completions", rq, rq.cq)
            raise_event(hca, rq, EventType.WQ_CATAS_ERROR)
            stop_rq(hca, rq)
        yield is_stopped

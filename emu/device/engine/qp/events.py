"""Asynchronous events of queue pairs and of shared receive queues (IBTA 11.6.3).

A shared queue has two events of its own: fewer posted requests than its limit, and an unreadable
queue.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import eq as eq_engine
from emu.device.engine.events.counters import count_event
from emu.device.engine.events.error_syndromes import EVENT_SYNDROME, Cause, error_word
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_queue import ListBrokenError, RecvWqe
from emu.device.objects.queues.srq import Srq
from emu.device.ports import DmaError
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpType

if TYPE_CHECKING:
    from emu.device.state.events import Events

log = logging.getLogger(__name__)

_QP_SRQ_DATA: Final = Struct(">20xB3xI")


_FATAL: Final = (EventType.WQ_CATAS_ERROR, EventType.WQ_ACCESS_ERROR)


def raise_qp_event(events: Events, qp: Qp, event: EventType, cause: Cause = Cause.ANY) -> None:
    """Raise an affiliated asynchronous event of a queue pair; change no state of the queue pair.

    The event is lost if no EQ subscribes to it. For fatal events QUERY_QP then reports ``cause``
    (mlx5_ib: mlx5_ib_qp_err_syndrome). WQ_ACCESS_ERROR and WQ_INVAL_REQ_ERROR are counted. A DC
    target's responder raises and counts nothing: a target stays usable (qpc.c:
    dct_allowed_event_types).
    """
    if qp.st is QpType.DCT:
        return
    count_event(qp, event)
    if event in _FATAL:
        qp.note_error(error_word(event, EVENT_SYNDROME, cause))
    eq_engine.raise_event(events, event, _QP_SRQ_DATA.pack(0, qp.handle))


def establish(events: Events, qp: Qp) -> None:
    """Raise COMM_EST, once after each reset, for a request that arrives in RTR.

    The caller has checked the state, which stays RTR. The event spares a driver the wait for its
    peer's last message (IBTA 11.6.3.1; mlx5_ib: IB_EVENT_COMM_EST).
    """
    if not qp.is_established:
        qp.is_established = True
        raise_qp_event(events, qp, EventType.COMM_EST)


def raise_srq_event(events: Events, srqn: int, event: EventType) -> None:
    """Raise an affiliated asynchronous event of a shared receive queue."""
    eq_engine.raise_event(events, event, _QP_SRQ_DATA.pack(0, srqn))


def check_srq_limit(events: Events, srq: Srq) -> None:
    """Raise SRQ_RQ_LIMIT when fewer requests are posted than the limit, and disarm the limit.

    Without an armed limit (lwm 0) this does nothing. An unreadable doorbell record breaks the queue
    (SRQ_CATAS_ERROR); the request taken last is still filled.
    """
    if not srq.lwm:
        return
    try:
        is_low = srq.queue.posted() < srq.lwm
    except DmaError as error:
        log.warning("%r: its limit cannot be checked: %s", srq, error)
        break_srq(events, srq)
        return
    if is_low:
        srq.lwm = 0
        raise_srq_event(events, srq.handle, EventType.SRQ_RQ_LIMIT)


def break_srq(events: Events, srq: Srq) -> None:
    """Move a shared queue to its error state and raise SRQ_CATAS_ERROR; later calls do nothing.

    In this state ``take_shared`` raises ListBrokenError. Its queue pairs are not stopped here.
    """
    if not srq.is_in_error:
        srq.is_in_error = True
        raise_srq_event(events, srq.handle, EventType.SRQ_CATAS_ERROR)


def take_shared(srq: Srq) -> RecvWqe | None:
    """Return the next request of a shared queue; None when it is empty.

    Raises DmaError for unreadable memory, ListBrokenError for an invalid link or a queue in its
    error state. The error state itself is not entered here.
    """
    check_shared(srq)
    return srq.queue.take()


def check_shared(srq: Srq) -> None:
    """Raise ListBrokenError for a shared queue in its error state."""
    if srq.is_in_error:
        raise ListBrokenError("the shared queue is in its error state")

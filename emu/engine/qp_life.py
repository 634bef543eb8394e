"""What happens to a queue pair when its state changes: flush, restart, and the events about it.

In ERR every request that is posted, or still will be, completes with WR_FLUSH_ERR (IBTA 10.3.1,
o10-2.1). Sends ring a doorbell; receives do not, so an error state with a receive ring looks at the
doorbell record by timer, less and less often: a driver that drains posts its last receive after the
transition (hw/qp.c: mlx5_ib_drain_rq).
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import TYPE_CHECKING

from emu.engine import cq as cq_engine
from emu.engine.rq import RecvRing
from emu.objects import Qp
from emu.ports import DmaError
from layouts.enums import CqeOpcode, CqeSyndrome, EventType, QpState

if TYPE_CHECKING:
    from emu.hca import Hca

log = logging.getLogger(__name__)

FIRST_FLUSH_LOOK_NS = 1_000_000
LAST_FLUSH_LOOK_NS = 100_000_000

_QP_SRQ_DATA = Struct(">20xB3xI")


def raise_qp_event(hca: Hca, qp: Qp, event: EventType) -> None:
    """An affiliated asynchronous event of a queue pair."""
    hca.raise_event(event, _QP_SRQ_DATA.pack(0, qp.handle))


def raise_srq_event(hca: Hca, srqn: int, event: EventType) -> None:
    """An affiliated asynchronous event of a shared receive queue."""
    hca.raise_event(event, _QP_SRQ_DATA.pack(0, srqn))


def check_srq_limit(hca: Hca, srqn: int) -> None:
    """Raise the limit event, once for each arming, when fewer requests wait than the mark says."""
    srq = hca.srqs.get(srqn)
    if srq is not None and srq.lwm and srq.queue.posted() < srq.lwm:
        srq.lwm = 0
        raise_srq_event(hca, srqn, EventType.SRQ_RQ_LIMIT)


def entered(hca: Hca, qp: Qp) -> None:
    """A command has changed the context: take over what the engine needs, and act on the state."""
    qp.decode()
    qp.stop_waiting()
    if qp.state is QpState.RST:
        qp.restart()
    elif qp.state is QpState.ERR:
        flush(hca, qp)
    elif qp.state is QpState.RTS:
        hca.schedule(qp)


def to_error(hca: Hca, qp: Qp) -> None:
    """The device itself moves a queue pair to ERR."""
    if qp.state is not QpState.ERR:
        log.info("%r: to ERR from %s", qp, qp.state.name)
        qp.state = QpState.ERR
        qp.stop_waiting()
        flush(hca, qp)


def to_send_queue_error(hca: Hca, qp: Qp) -> None:
    """An unreliable service stops sending but goes on receiving (IBTA 10.3.1.6)."""
    qp.state = QpState.SQER
    _flush_sends(hca, qp)


def flush(hca: Hca, qp: Qp) -> None:
    """Complete all that is posted with WR_FLUSH_ERR, and keep looking for receives."""
    _flush_sends(hca, qp)
    if isinstance(qp.rq, RecvRing):
        _look_for_receives(hca, qp, FIRST_FLUSH_LOOK_NS)
    elif qp.srq is not None:
        raise_qp_event(hca, qp, EventType.SRQ_LAST_WQE)


def _flush_sends(hca: Hca, qp: Qp) -> None:
    sq, cq = qp.sq, qp.scq
    if sq is None or cq is None:
        return
    try:
        for ctrl in sq.drain():
            cq_engine.fail(
                hca, cq, qp, CqeOpcode.REQ_ERR, CqeSyndrome.WR_FLUSH_ERR,
                wqe_counter=ctrl >> 8 & 0xFFFF, wqe_opcode=ctrl & 0xFF,
            )  # fmt: skip
    except DmaError as error:
        log.warning("%r: send queue cannot be flushed: %s", qp, error)


def _look_for_receives(hca: Hca, qp: Qp, interval_ns: int) -> None:
    if qp.state is not QpState.ERR or hca.qps.get(qp.handle) is not qp:
        return
    found = _flush_receives(hca, qp)
    interval_ns = FIRST_FLUSH_LOOK_NS if found else min(interval_ns * 2, LAST_FLUSH_LOOK_NS)
    qp.timer = hca.clock.call_later(interval_ns, lambda: _look_for_receives(hca, qp, interval_ns))


def _flush_receives(hca: Hca, qp: Qp) -> bool:
    """Flush the receive ring; True when there was something in it."""
    ring, cq = qp.rq, qp.rcq
    found = False
    try:
        while ring is not None and cq is not None and (wqe := ring.take()):
            found = True
            cq_engine.fail(
                hca, cq, qp, CqeOpcode.RESP_ERR, CqeSyndrome.WR_FLUSH_ERR, wqe_counter=wqe.index
            )
    except DmaError as error:
        log.warning("%r: receive queue cannot be flushed: %s", qp, error)
    return found

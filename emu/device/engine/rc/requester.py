"""The requester: hands messages to queue pairs in this process, and sends datagrams.

A message to a queue pair in the same process is one direct call, which ends in an acknowledgement
or a NAK. This module decides what to do after a NAK - wait and retry, give up, fail - by the
retry counts and timers of the queue pair (IBTA 9.7.5, 9.7.6). For a peer in another process
``emu.device.engine.rc.packets.requester`` does the same with packets.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from emu.device.engine.mr import page_faults
from emu.device.engine.mr.rights import AbsentPageError
from emu.device.engine.qp import send_requests
from emu.device.engine.qp.send_requests import LocalError
from emu.device.engine.rc import dynamic
from emu.device.engine.rc.exchange import Unfinished, exchange
from emu.device.engine.rc.nak import SYNDROMES, Dropped, Nak, RnrNak
from emu.device.engine.rc.timers import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from emu.device.engine.ud import datagram as ud
from emu.device.engine.ud import delivery
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.page_fault import Held, Side
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import Wqe
from emu.device.port.datagram import Datagram
from emu.device.rounds.budget import STEPS_PER_ROUND
from emu.device.rounds.costs import LOG_BYTES_PER_STEP
from emu.device.rounds.sizes import BYTES_PER_TURN, WQES_PER_TURN
from layouts.enums import CqeSyndrome, QpState, QpType

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)


_FEW_BYTES = 1 << 16
"""A message up to this length is not counted among the steps of a round."""

_RTS, _DCI = QpState.RTS, QpType.DCI


def turn(hca: Hca, qp: Qp) -> bool:
    """Do a share of the requests that need no packets; True when there are more.

    Raises BadWqeError or DmaError when the ring is broken, NeedsPacketsError when requests have to
    go as packets from here on.
    """
    sq = qp.sq
    assert sq is not None
    budget = BYTES_PER_TURN
    waiting = sq.waiting()
    for _ in range(WQES_PER_TURN):
        if waiting <= 0:  # requests posted meanwhile ring their own doorbell
            return False
        moving = qp.moving
        wqe = sq.fetch(waiting) if moving is None or moving.wqe is None else moving.wqe
        sent = _one(hca, qp, wqe)
        if sent is None:
            return False
        waiting -= wqe.blocks
        budget -= sent
        if sent > _FEW_BYTES:
            hca.round.charge(sent >> LOG_BYTES_PER_STEP)
        if budget < 0 or hca.round.steps > STEPS_PER_ROUND:
            break
    return True


def _one(hca: Hca, qp: Qp, wqe: Wqe) -> int | None:
    """Do one request. Returns the bytes moved, or None when the queue pair has to stop or wait."""
    try:
        work = qp.moving or send_requests.parse(hca, qp, wqe)
        length = 0
        if isinstance(work, Message):
            length = work.length
            if qp.st is _DCI:
                dynamic.exchange(hca, qp, wqe, work)
            else:
                exchange(hca, qp, wqe, work)
        elif work is not None:
            length = work.length
            _post(hca, qp, work)
    except LocalError as error:
        send_requests.fail(hca, qp, wqe, error.syndrome, str(error), error.cause)
    except Unfinished:
        hca.schedule(qp)
    except AbsentPageError as page:
        _wait_for_page(hca, qp, wqe, page)
    except Held as held:
        _wait_for_peer(hca, qp, wqe, held)
    except Nak as nak:
        if qp.state is QpState.RTS:
            send_requests.fail(hca, qp, wqe, SYNDROMES[nak.code], f"peer: {nak}")
    except RnrNak as nak:
        _wait_for_receiver(hca, qp, wqe, nak)
    except Dropped as dropped:
        _wait_for_answer(hca, qp, wqe, dropped)
    else:
        # A queue pair that is its own peer and has failed has already flushed this request.
        if qp.state is _RTS:
            send_requests.complete(hca, qp, wqe, length)
        return length if qp.state is _RTS else None
    return None


def _post(hca: Hca, qp: Qp, work: Datagram) -> None:
    """Send a datagram; there is no response."""
    delivery.send(hca, work, ud.origin_of(hca.link, qp, work.to))


def _wait_for_page(hca: Hca, qp: Qp, wqe: Wqe, page: AbsentPageError) -> None:
    """Keep the request in the ring; it is tried again when the page is present."""
    error = LocalError.of_access(page, wqe.opcode)

    def refuse(why: str) -> None:
        send_requests.fail(hca, qp, wqe, error.syndrome, why, error.cause)

    done = 0 if qp.moving is None else qp.moving.done
    access = page_faults.request_access(hca, qp, wqe, done)
    fault = page_faults.suspend(hca, qp, Side.REQUESTER, access, page, refuse)
    fault.go_on = lambda _: hca.schedule(qp)


def _wait_for_peer(hca: Hca, qp: Qp, wqe: Wqe, held: Held) -> None:
    """Wait while the peer waits for a page of its own: no timeout runs and no retry is counted."""
    fault = held.page_fault

    def go_on(answer: Exception | None) -> None:
        fault.release(qp)
        if isinstance(answer, Nak) and qp.state is QpState.RTS:
            send_requests.fail(hca, qp, wqe, SYNDROMES[answer.code], f"peer: {answer}")
        else:
            hca.schedule(qp)

    fault.hold(qp, go_on)


def _wait_for_receiver(hca: Hca, qp: Qp, wqe: Wqe, nak: RnrNak) -> None:
    """RNR NAK: retry after the time that the responder gave (IBTA 9.7.5.2.8)."""
    qp.count("rnr_nak_retry_err")
    if send_requests.may_wait_for_receiver(qp):
        _again_after(hca, qp, RNR_NAK_NS[nak.timer])
    else:
        send_requests.fail(hca, qp, wqe, CqeSyndrome.RNR_RETRY_EXC_ERR, f"{qp.rnr_retries} retries")


def _wait_for_answer(hca: Hca, qp: Qp, wqe: Wqe, dropped: Dropped) -> None:
    """No response: retry after the timeout (IBTA 9.7.6.1)."""
    if not qp.ack_timeout:
        log.info(
            "%r: no response (%s), and no ACK timeout is set: it waits for the next doorbell",
            qp,
            dropped,
        )
        return

    def over() -> None:
        qp.timer = None
        qp.count("local_ack_timeout_err")
        if send_requests.may_ask_again(qp):
            hca.schedule(qp)
        else:
            send_requests.fail(hca, qp, wqe, CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, why)

    why = str(dropped)
    qp.timer = hca.clock.call_later(ACK_TIMEOUT_UNIT_NS << qp.ack_timeout, over)


def _again_after(hca: Hca, qp: Qp, delay_ns: int) -> None:
    def again() -> None:
        qp.timer = None
        hca.schedule(qp)

    qp.timer = hca.clock.call_later(delay_ns, again)

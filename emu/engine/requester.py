"""The requester: takes WQEs off send queues, sends what they ask for, and completes them.

Every queue pair whose doorbell rang stands in the device's ready list; a turn does a bounded number
of its WQEs and puts it back. To a queue pair in the same process a message goes directly: one call,
answered at once by acknowledgement or refusal. What a refusal means - wait and try again, give up,
fail - is decided here, by the counts and timers of the queue pair (IBTA 9.7.5, 9.7.6).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from emu.engine import cq as cq_engine
from emu.engine import datagram as ud
from emu.engine import qp_life, responder
from emu.engine.datagram import Datagram
from emu.engine.memory import AccessError, length_of
from emu.engine.message import Dropped, Message, MsgOp, Nak, NakCode, RnrNak
from emu.engine.sq import BadWqeError, Wqe
from emu.engine.timers import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from emu.engine.umr import BindError
from emu.engine.wqe_ops import WQE_OPS
from emu.objects import Qp
from emu.ports import DmaError
from layouts.enums import CqeOpcode, CqeSyndrome, EventType, QpState, QpType

if TYPE_CHECKING:
    from emu.hca import Hca

log = logging.getLogger(__name__)

WQES_PER_TURN = 16
BYTES_PER_TURN = 4 << 20
CE_MASK = 0b11 << 2
CE_ALWAYS = 0b10 << 2
INFINITE_RETRIES = 7
PSN_MASK = 0xFFFFFF
_PSN_HALF = 1 << 23

_SYNDROMES = {
    NakCode.INVALID_REQUEST: CqeSyndrome.REMOTE_INVAL_REQ_ERR,
    NakCode.REMOTE_ACCESS_ERROR: CqeSyndrome.REMOTE_ACCESS_ERR,
    NakCode.REMOTE_OPERATIONAL_ERROR: CqeSyndrome.REMOTE_OP_ERR,
    NakCode.PSN_SEQUENCE_ERROR: CqeSyndrome.TRANSPORT_RETRY_EXC_ERR,
}


class LocalError(Exception):
    """A request fails before anything has left: its completion's syndrome."""

    def __init__(self, syndrome: CqeSyndrome, why: str) -> None:
        super().__init__(why)
        self.syndrome = syndrome


def turn(hca: Hca, qp: Qp) -> bool:
    """Do a share of a queue pair's waiting requests; True when it wants another turn."""
    sq = qp.sq
    if sq is None:
        return False
    if qp.state is not QpState.RTS:
        if qp.state is QpState.ERR:
            qp_life.flush(hca, qp)
        return False
    if qp.timer is not None:
        return False
    budget = BYTES_PER_TURN
    try:
        waiting = sq.waiting()
        for _ in range(WQES_PER_TURN):
            if not waiting:
                return sq.waiting() > 0
            wqe = sq.fetch(waiting)
            sent = _one(hca, qp, wqe)
            if sent is None:
                return False
            waiting -= wqe.blocks
            budget -= sent
            if budget < 0:
                break
    except (BadWqeError, DmaError) as error:
        log.warning("%r: send queue is broken: %s", qp, error)
        _break(hca, qp)
        return False
    return True


def _one(hca: Hca, qp: Qp, wqe: Wqe) -> int | None:
    """One request. The bytes it moved, or None when the queue pair has to stop or wait."""
    try:
        work = _parse(hca, qp, wqe)
        length = 0
        if isinstance(work, Message):
            length = work.length
            _exchange(hca, qp, work)
        elif work is not None:
            length = work.length
            _post(hca, qp, work)
    except LocalError as error:
        _fail(hca, qp, wqe, error.syndrome, str(error))
    except Nak as nak:
        _fail(hca, qp, wqe, _SYNDROMES[nak.code], f"peer: {nak}")
    except RnrNak as nak:
        _wait_for_receiver(hca, qp, wqe, nak)
    except Dropped as dropped:
        _wait_for_answer(hca, qp, wqe, dropped)
    else:
        qp.sq.consume(wqe.blocks)  # type: ignore[union-attr]  # turn() has looked
        if wqe.fm_ce_se & CE_MASK == CE_ALWAYS:
            _complete(hca, qp, wqe, length)
        return length
    return None


def _parse(hca: Hca, qp: Qp, wqe: Wqe) -> Message | Datagram | None:
    """What the WQE asks for. Raises LocalError."""
    operation = WQE_OPS.get((wqe.opcode, qp.st))
    if operation is None:
        raise LocalError(
            CqeSyndrome.LOCAL_QP_OP_ERR, f"opcode {wqe.opcode:#x} is not for {qp.st.name}"
        )
    if wqe.qpn != qp.handle:
        raise LocalError(CqeSyndrome.LOCAL_QP_OP_ERR, f"WQE is for qpn {wqe.qpn:#x}")
    try:
        work = operation(hca, qp, wqe)
    except AccessError as error:
        raise LocalError(CqeSyndrome.LOCAL_PROT_ERR, str(error)) from None
    except BindError as error:
        raise LocalError(CqeSyndrome.MW_BIND_ERR, str(error)) from None
    except BadWqeError as error:
        raise LocalError(CqeSyndrome.LOCAL_QP_OP_ERR, str(error)) from None
    limit = qp.max_datagram if isinstance(work, Datagram) else 1 << qp.log_msg_max
    if work is not None and work.length > limit:
        raise LocalError(CqeSyndrome.LOCAL_LENGTH_ERR, f"{work.length} bytes, at most {limit}")
    return work


def _exchange(hca: Hca, qp: Qp, message: Message) -> None:
    """Hand a message to the responder and take its answer."""
    node = hca.wire.node(qp.rlid)
    peer = node.qps.get(qp.remote_qpn) if node is not None else None
    if node is None or peer is None or not _are_partners(hca, node, qp, peer):
        raise Dropped("no such peer")
    packets = max(-(-message.length // qp.mtu_bytes), 1)
    if _is_expected(qp, peer, packets):
        responder.respond(node, peer, message, hca.port.lid)
        peer.epsn = (qp.psn + packets) & PSN_MASK
    qp.psn = (qp.psn + packets) & PSN_MASK
    qp.retries = qp.rnr_retries = 0
    incoming = message.op not in (MsgOp.SEND, MsgOp.WRITE)
    hca.port.count_sent(packets, 0 if incoming else message.length)
    node.port.count_received(packets, 0 if incoming else message.length)


def _are_partners(hca: Hca, node: Hca, qp: Qp, peer: Qp) -> bool:
    """The peer is connected back to us with the same service (IBTA 9.6.1.3)."""
    return (
        peer.st is qp.st
        and peer.remote_qpn == qp.handle
        and peer.rlid == hca.port.lid
        and node.port.is_up
        and hca.port.is_up
    )


def _is_expected(qp: Qp, peer: Qp, packets: int) -> bool:
    """True for the expected PSN; a duplicate is acknowledged unexecuted; a gap is refused.

    UC takes any PSN for the first packet of a message (IBTA 9.9.2.1.1).
    """
    ahead = (qp.psn - peer.epsn) & PSN_MASK
    if not ahead or qp.st is QpType.UC:
        return True
    if ahead < _PSN_HALF:
        raise Nak(NakCode.PSN_SEQUENCE_ERROR, f"psn {qp.psn:#x}, expected {peer.epsn:#x}")
    return False


def _post(hca: Hca, qp: Qp, work: Datagram) -> None:
    """Send a datagram; nobody answers."""
    origin = ud.origin_of(hca, qp, work.to)
    hca.port.count_sent(1, work.length)
    if hca.port.is_up:
        hca.wire.datagram(hca, work, origin)


def _complete(hca: Hca, qp: Qp, wqe: Wqe, length: int) -> None:
    assert qp.scq is not None
    cq_engine.complete(
        hca,
        qp.scq,
        qp,
        CqeOpcode.REQ,
        wqe_counter=wqe.index,
        byte_cnt=length,
        wqe_opcode=wqe.opcode,
    )


def _fail(hca: Hca, qp: Qp, wqe: Wqe, syndrome: CqeSyndrome, why: str) -> None:
    """The request completes in error and the queue pair stops."""
    log.warning("%r: wqe %d: %s: %s", qp, wqe.index, syndrome.name, why)
    assert qp.sq is not None
    assert qp.scq is not None
    qp.sq.consume(wqe.blocks)
    cq_engine.fail(
        hca, qp.scq, qp, CqeOpcode.REQ_ERR, syndrome,
        wqe_counter=wqe.index, wqe_opcode=wqe.opcode,
    )  # fmt: skip
    if qp.st in (QpType.RC, QpType.XRC, QpType.REG_UMR):
        qp_life.to_error(hca, qp)
    else:
        qp_life.to_send_queue_error(hca, qp)


def _break(hca: Hca, qp: Qp) -> None:
    """The ring itself cannot be trusted: no completion can name a request."""
    qp_life.raise_qp_event(hca, qp, EventType.WQ_CATAS_ERROR)
    qp_life.to_error(hca, qp)


def _wait_for_receiver(hca: Hca, qp: Qp, wqe: Wqe, nak: RnrNak) -> None:
    """RNR: try again after the time that the receiver named (IBTA 9.7.5.2.8)."""
    qp.count("rnr_nak_retry_err")
    if qp.rnr_retry != INFINITE_RETRIES and qp.rnr_retries >= qp.rnr_retry:
        _fail(hca, qp, wqe, CqeSyndrome.RNR_RETRY_EXC_ERR, f"{qp.rnr_retries} retries")
        return
    qp.rnr_retries += 1
    _again_after(hca, qp, RNR_NAK_NS[nak.timer])


def _wait_for_answer(hca: Hca, qp: Qp, wqe: Wqe, dropped: Dropped) -> None:
    """No answer: an unreliable request is done, a reliable one is repeated (IBTA 9.7.6.1)."""
    if qp.st is QpType.UC:
        assert qp.sq is not None
        qp.sq.consume(wqe.blocks)
        if wqe.fm_ce_se & CE_MASK == CE_ALWAYS:
            _complete(hca, qp, wqe, length_of(()))
        hca.schedule(qp)
        return
    if not qp.ack_timeout:
        log.info("%r: no answer (%s) and no timeout set: waiting for a doorbell", qp, dropped)
        return
    qp.count("local_ack_timeout_err")
    if qp.retries >= qp.retry_count:
        _fail(hca, qp, wqe, CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, f"{dropped}")
        return
    qp.retries += 1
    _again_after(hca, qp, ACK_TIMEOUT_UNIT_NS << qp.ack_timeout)


def _again_after(hca: Hca, qp: Qp, delay_ns: int) -> None:
    def again() -> None:
        qp.timer = None
        hca.schedule(qp)

    qp.timer = hca.clock.call_later(delay_ns, again)

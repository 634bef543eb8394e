"""Requests to a responder in this process: a whole message in one call, or its shares.

The steps are those of ``emu.device.engine.rc.responder``. The caller, the requester, knows that the
two agree (``agreement.py``); a message that it made itself has no opcode sequence and no length to
check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.qp.events import establish
from emu.device.engine.qp.transitions import ESTABLISHED, RECEIVING
from emu.device.engine.rc.fatal_nak import invalid_request
from emu.device.engine.rc.receive import check_resource, keep
from emu.device.engine.rc.responder import (
    begin_pieces,
    begin_rdma,
    complete,
    execute,
    execute_atomic,
    execute_read,
)
from emu.device.engine.wqe.atomic import reply_word
from emu.device.objects.memory.views import Views, copy
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.outcome import Dropped, InPieces, Outcome
from emu.device.objects.queues.page_fault import Held, Side
from emu.device.objects.queues.qp import Qp

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_SEND, _WRITE, _READ = MsgOp.SEND, MsgOp.WRITE, MsgOp.READ


def respond(hca: Hca, qp: Qp, message: Message, slid: int) -> Outcome | None:
    """Take one whole message; None when it is acknowledged.

    InPieces when the message has begun but is too much for one call: then ``message.most`` is set,
    and the caller has to pass it by ``take_share``. Nak or RnrNak; Dropped when there is no
    response; Held when a page is absent: the caller has to pass the message again.
    """
    if qp.state not in ESTABLISHED or qp.page_faults:
        refused = _check_ready(hca, qp)
        if refused is not None:
            return refused
    op = message.op
    if op is _WRITE:
        return _write(hca, qp, message, slid)
    if op is _SEND:
        return check_resource(hca, qp, message) or _receive(hca, qp, message, slid)
    if op is _READ:
        data = begin_rdma(hca, qp, message)
        if isinstance(data, Outcome):
            return _divided(hca, qp, message, data)
        copy(message.reply, data)
        return None
    old = execute_atomic(hca, qp, message)
    if isinstance(old, Outcome):
        return old
    copy(message.reply, (memoryview(reply_word(hca, message.length).pack(old)),))
    return None


def _check_ready(hca: Hca, qp: Qp) -> Outcome | None:
    if qp.state not in ESTABLISHED:
        if qp.state not in RECEIVING:
            return Dropped(f"{qp!r} is in {qp.state.name}")
        establish(hca, qp)
    fault = qp.page_faults.get(Side.RESPONDER)
    return None if fault is None else Held(fault)


def _write(hca: Hca, qp: Qp, message: Message, slid: int) -> Outcome | None:
    target = begin_rdma(hca, qp, message)
    if isinstance(target, Outcome):
        return _divided(hca, qp, message, target)
    if message.immediate is None:
        copy(target, message.data)
        return None
    message.target = target
    return check_resource(hca, qp, message) or _receive(hca, qp, message, slid)


def _receive(hca: Hca, qp: Qp, message: Message, slid: int) -> Outcome | None:
    """Execute and complete a message that has its receive WQE."""
    refused = execute(hca, qp, message, 0, message.data, message.length)
    if refused is None:
        return complete(hca, qp, message, slid)
    if isinstance(refused, Held):
        qp.kept = message.taken
        keep(hca, qp, message)
    return _divided(hca, qp, message, refused)


# A message that is too much for one call.


def _divided(hca: Hca, qp: Qp, message: Message, outcome: Outcome) -> Outcome:
    """The message has begun if it is only too much for one call."""
    if isinstance(outcome, InPieces):
        message.most = outcome.most
        _begin(hca, qp, message)
    return outcome


def _begin(hca: Hca, qp: Qp, message: Message) -> None:
    """Remember that a message has begun; if the QP stops, its receive WQE is flushed."""
    if message.begun is None:
        message.begun = object()
    qp.begun = message.begun
    if message.has_wqe:
        qp.kept = message.taken
        keep(hca, qp, message)


def is_begun(qp: Qp, message: Message) -> bool:
    """Whether the message has begun at this responder and still has its receive WQE.

    A responder that was reset since, or another one with its number, has not begun it.
    """
    return message.begun is qp.begun and (message.op is not _SEND or message.taken is qp.kept)


def take_share(
    hca: Hca, qp: Qp, message: Message, local: Views, length: int, slid: int
) -> Outcome | None:
    """Take the next ``length`` bytes of a message, or of a READ give them.

    ``local`` is the requester's memory. As ``respond``; InPieces when they are too much for one
    call.
    """
    refused = _check_ready(hca, qp)
    if refused is None and message.begun is None:
        refused = begin_pieces(hca, qp, message)
        if refused is None:
            _begin(hca, qp, message)
    if refused is not None:
        return refused
    if message.op is _SEND and not message.has_wqe:
        return invalid_request(hca, qp, "the message's receive queue was destroyed")
    if message.op is _READ:
        data = execute_read(hca, qp, message, message.done, length)
        if isinstance(data, Outcome):
            return data
        copy(local, data)
        return None
    if message.done + length < message.length:
        return execute(hca, qp, message, message.done, local, length)
    return _take_last(hca, qp, message, local, length, slid)


def _take_last(
    hca: Hca, qp: Qp, message: Message, local: Views, length: int, slid: int
) -> Outcome | None:
    """The last share of a SEND or WRITE, after which it is complete."""
    refused = None
    if message.immediate is not None and not message.has_wqe:
        refused = check_resource(hca, qp, message)
    if refused is None:
        _begin(hca, qp, message)
        refused = execute(hca, qp, message, message.done, local, length)
    if refused is not None:
        return refused
    qp.kept = None if qp.kept is message.taken else qp.kept
    return complete(hca, qp, message, slid)

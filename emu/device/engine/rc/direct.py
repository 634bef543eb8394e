"""Requests to a responder in this process: a whole message in one call, or its shares.

The steps are those of ``emu.device.engine.rc.responder``. The caller, the requester, knows that the
two agree (``agreement.py``); a message that it made itself has no opcode sequence and no length to
check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.mr.rights import InPieces
from emu.device.engine.qp.events import establish
from emu.device.engine.qp.transitions import ESTABLISHED, RECEIVING
from emu.device.engine.rc.fatal_nak import invalid_request
from emu.device.engine.rc.nak import Dropped
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
from emu.device.objects.queues.page_fault import Held, Side
from emu.device.objects.queues.qp import Qp

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_SEND, _WRITE, _READ = MsgOp.SEND, MsgOp.WRITE, MsgOp.READ


def respond(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    """Take one whole message. Returns when it is acknowledged.

    Also returns when the message has begun but is too much for one call: then ``message.most`` is
    set, and the caller has to pass it by ``take_share``. Raises Nak or RnrNak, Dropped when there
    is no response, and Held when a page is absent: the caller has to pass the message again.
    """
    if qp.state not in ESTABLISHED or qp.page_faults:
        _check_ready(hca, qp)
    op = message.op
    if op is _WRITE:
        _write(hca, qp, message, slid)
    elif op is _SEND:
        check_resource(hca, qp, message)
        _receive(hca, qp, message, slid)
    elif op is _READ:
        data = begin_rdma(hca, qp, message)
        if message.most:
            _begin(hca, qp, message)
        else:
            copy(message.reply, data)
    else:
        old = execute_atomic(hca, qp, message)
        copy(message.reply, (memoryview(reply_word(hca, message.length).pack(old)),))


def _check_ready(hca: Hca, qp: Qp) -> None:
    if qp.state not in ESTABLISHED:
        if qp.state not in RECEIVING:
            raise Dropped(f"{qp!r} is in {qp.state.name}")
        establish(hca, qp)
    if Side.RESPONDER in qp.page_faults:
        raise Held(qp.page_faults[Side.RESPONDER])


def _write(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    message.target = begin_rdma(hca, qp, message)
    if message.most:
        _begin(hca, qp, message)
    elif message.immediate is None:
        copy(message.target, message.data)
    else:
        check_resource(hca, qp, message)
        _receive(hca, qp, message, slid)


def _receive(hca: Hca, qp: Qp, message: Message, slid: int) -> None:
    """Execute and complete a message that has its receive WQE."""
    try:
        execute(hca, qp, message, 0, message.data, message.length)
    except InPieces as more:
        message.most = more.most
        _begin(hca, qp, message)
        return
    except Held:
        qp.kept = message.taken
        keep(hca, qp, message)
        raise
    complete(hca, qp, message, slid)


# A message that is too much for one call.


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


def take_share(hca: Hca, qp: Qp, message: Message, local: Views, length: int, slid: int) -> None:
    """Take the next ``length`` bytes of a message, or of a READ give them.

    ``local`` is the requester's memory. Raises as ``respond``, and InPieces when they are too much
    for one call.
    """
    _check_ready(hca, qp)
    if message.begun is None:
        begin_pieces(hca, qp, message)
        _begin(hca, qp, message)
    if message.op is _SEND and not message.has_wqe:
        raise invalid_request(hca, qp, "the message's receive queue was destroyed")
    offset = message.done
    is_last = offset + length == message.length
    if message.op is _READ:
        copy(local, execute_read(hca, qp, message, offset, length))
        return
    if is_last:
        if message.immediate is not None and not message.has_wqe:
            check_resource(hca, qp, message)
        _begin(hca, qp, message)
    execute(hca, qp, message, offset, local, length)
    if is_last:
        qp.kept = None if qp.kept is message.taken else qp.kept
        complete(hca, qp, message, slid)

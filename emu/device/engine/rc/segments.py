"""Moves messages in segments between queue pairs of this process.

A message that is too long or too scattered for one poll is moved in segments. Other queues are
polled in between. The effects are those of packets: moved bytes stay even if the rest fails, and a
key that was valid at the start may be invalid in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.qp import send_requests
from emu.device.engine.qp.events import establish
from emu.device.engine.qp.transitions import ESTABLISHED, RECEIVING
from emu.device.engine.rc.checks import RxCheck, invalid_request
from emu.device.engine.rc.receive import check_resource, set_aside
from emu.device.engine.rc.responder import begin_segments, complete, execute, execute_read
from emu.device.engine.rc.validation import packets_of
from emu.device.objects.memory.views import Views, copy, part
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.outcome import IN_PROGRESS, Dropped, Outcome, RnrNak, TooFragmented
from emu.device.objects.queues.page_fault import Side
from emu.device.objects.queues.qp import Qp
from emu.device.rounds.costs import LOG_BYTES_PER_STEP

if TYPE_CHECKING:
    from emu.device.objects.queues.srq import Srq
    from emu.device.objects.table import Table
    from emu.device.rounds.budget import Budget
    from emu.device.state.events import Events
    from emu.device.state.hca import Hca

_SEND: Final = MsgOp.SEND
_READ: Final = MsgOp.READ
_WRITE: Final = MsgOp.WRITE


def move(hca: Hca, qp: Qp, node: Hca, peer: Qp, message: Message) -> Outcome | None:
    """Move one poll's segments of a message to its peer; return None after the last one.

    Returns IN_PROGRESS when there are more: the next poll continues after ``message.done`` bytes.
    Any other outcome is an error at the requester, or the responder's response. A message whose
    responder was reset, or lost its receive WQE, restarts from its first byte. Each segment is
    charged to the budget.
    """
    if message.begun is not None and not _has_started(peer, message):
        message.done = message.counted = 0
        message.begun = message.receive = None
    budget = hca.budget
    limit = budget.segment_end()
    last = _start_of_last(peer, message)
    while budget.steps < limit:
        length = min(message.limit, message.length - message.done)
        if message.done < last:
            length = min(length, last - message.done)
        outcome = _move(hca, qp, node, peer, message, length)
        if isinstance(outcome, TooFragmented):
            message.limit = max(min(outcome.limit, length - 1), 1)
        elif outcome is not None:
            return outcome
        else:
            message.done += length
            if message.done == message.length:
                return None
        budget.charge((length >> LOG_BYTES_PER_STEP) + 1)
    return IN_PROGRESS


def _move(hca: Hca, qp: Qp, node: Hca, peer: Qp, message: Message, length: int) -> Outcome | None:
    """Move the next ``length`` bytes of a message; return None if done, else the outcome.

    TooFragmented asks for a shorter segment. An exception in the peer's function fails that
    function and is Dropped here.
    """
    wqe = message.wqe
    assert wqe is not None
    local = send_requests.memory_of(hca, qp, wqe, message, length)
    if isinstance(local, Outcome):
        return local
    try:
        return _take_segment(node, peer, message, local, length, hca.link.lid)
    except Exception:  # a bug in the peer stops only the peer: no response
        node.health.fail()
        return Dropped("the peer's function has failed")


def check_ready(events: Events, qp: Qp) -> Outcome | None:
    """Return None if the responder can execute a request now, otherwise its response.

    Dropped when it is in no receiving state, PageFault while it waits for a page. The first
    request in RTR raises COMM_EST.
    """
    if qp.state not in ESTABLISHED:
        if qp.state not in RECEIVING:
            return Dropped(f"{qp!r} is in {qp.state.name}: not a receiving state")
        establish(events, qp)
    return qp.page_faults.get(Side.RESPONDER)


def note_started(srqs: Table[Srq], qp: Qp, message: Message, outcome: Outcome) -> Outcome:
    """Return ``outcome`` unchanged; after TooFragmented first record that the message has started.

    The record sets ``message.limit`` to the length of a segment and keeps the receive WQE, so that
    ``move`` continues.
    """
    if isinstance(outcome, TooFragmented):
        message.limit = outcome.limit
        _start(srqs, qp, message)
    return outcome


def place_before_refused(
    budget: Budget, srqs: Table[Srq], qp: Qp, message: Message, refused: Outcome
) -> Outcome:
    """Place the data of all packets before the last one of a WRITE; return ``refused``.

    The last packet has been refused: only it has immediate data and needs a receive request (IBTA
    9.4.3, 9.7.4; rxe_resp.c: check_resource). After an RNR NAK the message continues at that
    packet. For a WRITE of one packet nothing is placed.
    """
    target, message.target = message.target, ()
    done = _start_of_last(qp, message)
    if done:
        copy(target, part(message.data, 0, done))
        budget.charge(done >> LOG_BYTES_PER_STEP)
        if isinstance(refused, RnrNak):
            message.done, message.limit = done, message.length - done
            _start(srqs, qp, message)
    return refused


def _start_of_last(qp: Qp, message: Message) -> int:
    """Return the offset of the last packet of a WRITE with immediate data; 0 for other messages."""
    if message.op is not _WRITE or message.immediate is None:
        return 0
    return (packets_of(message.length, qp.mtu_bytes) - 1) * qp.mtu_bytes


def _start(srqs: Table[Srq], qp: Qp, message: Message) -> None:
    """Record at message and responder that the message has started, under one token.

    Its receive WQE, if any, is set aside: if the queue pair stops, the WQE is flushed.
    """
    if message.begun is None:
        message.begun = object()
    qp.begun = message.begun
    if message.has_wqe:
        set_aside(srqs, qp, message)


def _has_started(qp: Qp, message: Message) -> bool:
    """Return whether the message has started at this responder and still has its receive WQE.

    A responder that was reset since, or another one with its number, has not started it.
    """
    return message.begun is qp.begun and (
        message.op is not _SEND or message.receive is qp.waiting_receive
    )


def _take_segment(
    hca: Hca, qp: Qp, message: Message, local: Views, length: int, slid: int
) -> Outcome | None:
    """Execute the next ``length`` bytes of a message; return None if done.

    ``local`` is the requester's memory, which gets the data of a READ. The first segment checks the
    message and takes its receive WQE, the last one completes it. The outcomes are those of whole
    messages (``local.py``); TooFragmented when the bytes are too much for one call. A SEND whose
    SRQ was destroyed is an invalid request.
    """
    refused = check_ready(hca.events, qp)
    if refused is None and message.begun is None:
        message.head = b"".join(local) if qp.adapter_requests is not None else b""
        refused = begin_segments(hca, qp, message)
        if refused is None:
            _start(hca.srqs, qp, message)
    if refused is not None:
        return refused
    if message.op is _SEND and not message.has_wqe:
        why = "the message's receive queue was destroyed"
        return invalid_request(hca, qp, RxCheck.RESOURCE, why)
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
    """Execute the last segment of a SEND or WRITE, and complete the message; return None if done.

    A WRITE with immediate data takes its receive WQE here, if it has none yet. The outcomes are
    those of ``check_resource``, ``execute`` and ``complete``.
    """
    refused = None
    if message.immediate is not None and not message.has_wqe:
        refused = check_resource(hca, qp, message)
    if refused is None:
        _start(hca.srqs, qp, message)
        refused = execute(hca, qp, message, message.done, local, length)
    if refused is not None:
        return refused
    if qp.waiting_receive is message.receive:
        qp.waiting_receive = None
    return complete(hca, qp, message, slid)

"""Messages to a queue pair in this process: handed to its responder, as a whole or in segments.

The responder's steps are those of ``emu.device.engine.rc.responder``. The two queue pairs agree
(``agreement.py``). A message of our own needs no check of opcode sequence or length. The requester
handles the outcome (``emu.device.engine.qp_poll``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.qp.transitions import ESTABLISHED, RECEIVING
from emu.device.engine.rc import segments
from emu.device.engine.rc.agreement import agree
from emu.device.engine.rc.receive import check_resource, set_aside
from emu.device.engine.rc.remote import begin_rdma, check_op_valid, needs_wqe_first
from emu.device.engine.rc.responder import complete, execute, execute_atomic
from emu.device.engine.rc.validation import packets_of
from emu.device.objects.memory.views import copy
from emu.device.objects.queues.direct_path import AETH_BYTES, BTH_AND_ICRC_BYTES
from emu.device.objects.queues.message import ATOMICS, WITH_RESPONSE_DATA, Message, MsgOp
from emu.device.objects.queues.outcome import (
    NEEDS_PACKETS,
    Dropped,
    LocalAccessFailed,
    Nak,
    Outcome,
    RnrNak,
    TooFragmented,
)
from emu.device.objects.queues.page_fault import PageFault
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import Wqe
from emu.device.state.hca import Hca
from layouts.enums.qp import QpType
from layouts.wire import bth
from layouts.wire.bth import PSN_MASK

if TYPE_CHECKING:
    from emu.device.port.link import LinkState, PacketCounts

_UC: Final = QpType.UC


def exchange(hca: Hca, qp: Qp, node: Hca | None, wqe: Wqe, message: Message) -> Outcome | None:
    """Hand a message to the peer's responder; return None when it is acknowledged.

    ``node`` is the peer's function, None when it is in another process. None advances the PSNs of
    both ends, resets the retry counts and counts the packets at both ports. UC does this after
    Dropped, too.

    NEEDS_PACKETS when the peer does not exist here, does not agree (``agreement.py``), or is in no
    receiving state. The same applies if it expects another PSN, allows fewer outstanding READs, or
    paces its responses. Dropped when a link is down or a loopback path has no peer. For other
    outcomes see ``pass_on``.
    """
    if node is None or (peer := node.qps.by_handle.get(qp.remote_qpn)) is None:
        return _NO_PEER if qp.is_looped else NEEDS_PACKETS
    if peer.state not in RECEIVING:
        return _NO_PEER if qp.is_looped else NEEDS_PACKETS
    ours, theirs = hca.link, node.link
    path = qp.direct_path
    if path is None or path.terms != (peer.revision, ours.attributes, theirs.attributes):
        if qp.is_looped:
            return _loop(hca, qp, wqe, peer, message)
        path = agree(hca, qp, node, peer)
        if path is None:
            return NEEDS_PACKETS
    length, has_response_data = message.length, message.op in WITH_RESPONSE_DATA
    if has_response_data and (path.reads_ahead or peer.response_pace is not None):
        return NEEDS_PACKETS
    # UC accepts any PSN for the first packet of a message (IBTA 9.9.2.1.1).
    if qp.psn != peer.epsn and qp.st is not _UC:
        return NEEDS_PACKETS
    packets = 1 if length <= qp.mtu_bytes else packets_of(length, qp.mtu_bytes)
    if path.is_up:
        outcome = pass_on(hca, qp, wqe, node, peer, message)
    else:
        outcome = Dropped("a link is down")
    # UC has completed a message once it is sent.
    if outcome is not None and not (qp.st is _UC and isinstance(outcome, Dropped)):
        return outcome
    qp.psn = peer.epsn = (qp.psn + packets) & PSN_MASK
    qp.retries = qp.rnr_retries = 0
    if has_response_data or (qp.moving is not None and message.counted):
        count(ours, theirs, qp, message, packets)
        return None
    try:
        path.lengths[length] += 1
    except KeyError:
        path.count_first(length)
    return None


def _loop(hca: Hca, qp: Qp, wqe: Wqe, peer: Qp, message: Message) -> Outcome | None:
    """Hand a message to a receiving queue pair of the same function, by a loopback path (``fl``).

    Returns Dropped unless the peer is looped too, refers back to ``qp``, has the same service,
    expects this PSN, and takes messages as long. None advances both PSNs. The ports are not
    involved and count nothing. Flow tables are written this way, also without RoCE
    (core/steering/dr_send.c: dr_send_allow_fl).
    """
    if (
        not peer.is_looped
        or peer.st is not qp.st
        or peer.remote_qpn != qp.handle
        or qp.psn != peer.epsn
        or peer.max_message < qp.max_message
    ):
        return _NO_PEER
    outcome = pass_on(hca, qp, wqe, hca, peer, message)
    if outcome is None:
        packets = packets_of(message.length, qp.mtu_bytes)
        qp.psn = peer.epsn = (qp.psn + packets) & PSN_MASK
        qp.retries = qp.rnr_retries = 0
    return outcome


_NO_PEER: Final = Dropped("no queue pair of this function accepts messages by a loopback path")


def pass_on(hca: Hca, qp: Qp, wqe: Wqe, node: Hca, peer: Qp, message: Message) -> Outcome | None:
    """Hand the responder a whole message, or one poll's segment of it; None when it is done.

    Returns IN_PROGRESS while segments are left; ``qp.moving`` is then the message. Other outcomes
    are those of ``RESPOND`` and ``segments.move``, never TooFragmented. An exception in the peer's
    function fails that function and is Dropped here. Nak, RnrNak and LocalAccessFailed count the
    packets at both ports.
    """
    if message.limit:
        outcome = None
    else:
        try:
            outcome = (
                segments.check_ready(node.events, peer)
                if peer.state not in ESTABLISHED or peer.page_faults
                else None
            ) or RESPOND[message.op](node, peer, message, hca.link)
        except Exception:  # a bug in the peer stops only the peer: no response
            node.health.fail()
            return Dropped("the peer's function has failed")
        if outcome is None:
            return None
    if message.limit:
        qp.moving, message.wqe = message, wqe
        message.data = message.reply = ()  # each segment maps its own: the memory may go meanwhile
        if outcome is None or isinstance(outcome, TooFragmented):
            outcome = segments.move(hca, qp, node, peer, message)
    if isinstance(outcome, (Nak, RnrNak, LocalAccessFailed)):
        packets = packets_of(message.length, qp.mtu_bytes)
        is_refused = not isinstance(outcome, LocalAccessFailed)
        count(hca.link, node.link, qp, message, packets, is_refused=is_refused)
        message.counted = message.done
    return outcome


def _read(hca: Hca, qp: Qp, message: Message, _sender: LinkState) -> Outcome | None:
    """Execute a whole READ, and copy its data to the requester's memory."""
    data = begin_rdma(hca, qp, message)
    if isinstance(data, Outcome):
        return segments.note_started(hca.srqs, qp, message, data)
    if message.reply_error is not None:
        return message.reply_error
    copy(message.reply, data)
    return None


def _atomic(hca: Hca, qp: Qp, message: Message, _sender: LinkState) -> Outcome | None:
    """Execute an atomic, and write the old value to the requester's memory."""
    old = execute_atomic(hca, qp, message)
    if isinstance(old, Outcome):
        return old
    if message.reply_error is not None:
        return message.reply_error
    copy(message.reply, (memoryview(message.old_value.pack(old)),))
    return None


def _send(hca: Hca, qp: Qp, message: Message, sender: LinkState) -> Outcome | None:
    """Execute a whole SEND, and complete its receive WQE."""
    return check_resource(hca, qp, message) or _receive(hca, qp, message, sender.lid)


def _write(hca: Hca, qp: Qp, message: Message, sender: LinkState) -> Outcome | None:
    """Execute a whole WRITE."""
    if message.immediate is not None:
        return _write_immediate(hca, qp, message, sender.lid)
    target = begin_rdma(hca, qp, message)
    if isinstance(target, Outcome):
        if isinstance(target, TooFragmented):
            segments.note_started(hca.srqs, qp, message, target)
        return target
    data = message.data
    if len(target) == 1 and len(data) == 1:
        target[0][:] = data[0]
    else:
        copy(target, data)
    return None


def _write_immediate(hca: Hca, qp: Qp, message: Message, slid: int) -> Outcome | None:
    """Execute a whole WRITE with immediate data, and complete its receive WQE.

    If only the receive WQE is missing, all packets before the last one stay placed.
    """
    if needs_wqe_first(qp, message):
        refused = check_op_valid(hca, qp, message) or check_resource(hca, qp, message)
        if refused is not None:
            return refused
    target = begin_rdma(hca, qp, message)
    if isinstance(target, Outcome):
        if isinstance(target, PageFault) and message.has_wqe:
            set_aside(hca.srqs, qp, message)
        return segments.note_started(hca.srqs, qp, message, target)
    message.target = target
    refused = None if message.has_wqe else check_resource(hca, qp, message)
    if refused is not None:
        return segments.place_before_refused(hca.budget, hca.srqs, qp, message, refused)
    return _receive(hca, qp, message, slid)


def _receive(hca: Hca, qp: Qp, message: Message, slid: int) -> Outcome | None:
    """Write a whole message's data and complete its receive WQE; return None if both succeed.

    After PageFault or Dropped the queue pair keeps the WQE for the repeated or the next
    message. After TooFragmented the message has started, and is continued in segments.
    """
    refused = execute(hca, qp, message, 0, message.data, message.length)
    if refused is None:
        return complete(hca, qp, message, slid)
    if isinstance(refused, (PageFault, Dropped)) and message.has_wqe:
        set_aside(hca.srqs, qp, message)
    return segments.note_started(hca.srqs, qp, message, refused)


RESPOND: Final[Mapping[MsgOp, Callable[[Hca, Qp, Message, LinkState], Outcome | None]]] = {
    MsgOp.SEND: _send,
    MsgOp.WRITE: _write,
    MsgOp.READ: _read,
    **dict.fromkeys(ATOMICS, _atomic),
}
"""Functions that execute a whole message at the responder; None means that it is acknowledged.

The link is the requester's.

Nak or RnrNak refuse the message; a Nak has moved the queue pair to ERR. Dropped means no response.
TooFragmented: ``message.limit`` is set, and the caller continues by ``segments.move``.
PageFault: a page is absent, and the caller repeats the message. LocalAccessFailed: the
request is executed, but the requester cannot store the response.
"""

_RETH_BYTES: Final = bth.reth.size


def count(
    ours: PacketCounts,
    theirs: PacketCounts,
    qp: Qp,
    message: Message,
    packets: int,
    *,
    is_refused: bool = False,
) -> None:
    """Count a message's packets and bytes, without padding, and its responses at both ports.

    ``ours`` is the requester's port, ``theirs`` the responder's; one port counts a loop.
    ``packets`` carry the message's data. A message without response data has one ACK, or a NAK if
    ``is_refused``; on UC none. For a repeated message only the packets after ``message.counted``
    bytes count.
    """
    each, marks = qp.header_bytes + BTH_AND_ICRC_BYTES, qp.marks
    octets = packets * each + message.length
    if message.counted:
        again = message.counted // qp.mtu_bytes
        packets, octets = packets - again, octets - again * each - message.counted
    back, back_octets = 1, each + AETH_BYTES
    if message.op in WITH_RESPONSE_DATA:
        if not is_refused:
            back, back_octets = packets, octets
        packets, octets = 1, each + _RETH_BYTES
    if qp.st is _UC:
        back = back_octets = 0
    if ours is theirs:
        ours.count_loop(packets, octets, back, back_octets, marks)
        return
    ours.count_exchange(packets, octets, back, back_octets, marks)
    theirs.count_exchange(back, back_octets, packets, octets, marks)

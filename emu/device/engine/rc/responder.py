"""Steps of the responder for RC, UC and the target side of XRC (IBTA 9.7.4, 9.9).

Every request passes the checks of ``checks.RxCheck`` in their order: as a whole message
(``local.py``), in segments (``segments.py``) or packet by packet (``packets/responder.py``). For
packets, the length is checked before any step with an effect, because a packet of the wrong length
must have none. The message is then executed and completed here.

A request that fails a check is NAKed. The responder's consequence is immediate: an error
completion, an asynchronous event, the error state (``checks.py``,
``receive.fail_receive_and_nak``). The requester handles the consequence for the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.rc.checks import RxCheck, invalid_request
from emu.device.engine.rc.receive import (
    check_resource,
    complete_receive,
    invalidate,
    refuse_scattered,
    scatter_to,
    scatters,
    set_aside,
)
from emu.device.engine.rc.remote import (
    REMOTE,
    begin_rdma,
    check_op_valid,
    check_rkey_only,
    map_next_segment,
    needs_wqe_first,
    pd_of,
    refuse_access,
)
from emu.device.engine.tm import matching
from emu.device.engine.wqe.atomic import atomic_word
from emu.device.objects.memory.views import Views, copy
from emu.device.objects.queues.message import COMPARE_SWAPS, Message, MsgOp
from emu.device.objects.queues.outcome import Outcome, TooFragmented
from emu.device.objects.queues.page_fault import PageFault
from emu.device.objects.queues.qp import Qp

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_SEND: Final = MsgOp.SEND
_WRITE: Final = MsgOp.WRITE


def begin_segments(hca: Hca, qp: Qp, message: Message) -> Outcome | None:
    """Return None if a segmented message may start, else the refusal; its range is not mapped.

    A SEND takes its receive WQE here, and so does a WRITE that needs it first. For a WRITE, READ or
    atomic the rights, the key and the first pages are checked, and the request is counted. The
    outcomes are those of ``check_resource``, ``check_op_valid`` and ``check_rkey_only``;
    PageFault keeps the WQE.
    """
    if message.op is _SEND:
        return check_resource(hca, qp, message)
    refused = check_op_valid(hca, qp, message)
    if refused is None and needs_wqe_first(qp, message):
        refused = check_resource(hca, qp, message)
        if refused is not None:
            return refused
    qp.count(REMOTE[message.op].counter)
    refused = refused or check_rkey_only(hca, qp, message)
    if isinstance(refused, PageFault) and message.has_wqe:
        set_aside(hca.srqs, qp, message)
    return refused


def execute(
    hca: Hca, qp: Qp, message: Message, offset: int, data: Views, length: int
) -> Outcome | None:
    """Write ``length`` bytes at ``offset`` of a SEND or WRITE to their memory; return None if done.

    The data of a short SEND may be kept in ``message.scattered`` for its CQE; their memory is then
    only checked. Other outcomes are those of ``scatter_to`` and ``map_segment``; nothing is then
    written. A key that was valid at the start may be invalid for a later segment (9.7.4.2).
    """
    target: Views | Outcome
    if message.op is _SEND:
        receive = message.receive
        assert receive is not None
        if receive.arrival is not None:
            offset, data, length = matching.placement(receive.arrival, offset, data, length)
        target = scatter_to(hca, qp, receive, offset, length)
    elif message.target:
        target, message.target = message.target, ()
    else:
        target = map_next_segment(hca, qp, message, offset, length)
    if isinstance(target, Outcome):
        return target
    if qp.cs_res and length <= qp.cs_res and scatters(qp, message, length):
        message.scattered = b"".join(data).ljust(qp.cs_res, b"\0")
        return None
    if len(target) == 1 and len(data) == 1:
        target[0][:] = data[0]
    else:
        copy(target, data)
    return None


def refuse_packet(hca: Hca, qp: Qp, message: Message, pieces: TooFragmented) -> Outcome:
    """Refuse a packet of a SEND or WRITE whose memory is too scattered; return the response.

    The queue pair goes to ERR. A SEND fails its receive WQE with LOCAL_PROT_ERR, a WRITE is refused
    by ``refuse_access``. A message inside the process is cut into smaller segments; a packet is
    not.
    """
    if message.op is not _SEND:
        return refuse_access(hca, qp, message.receive, pieces.why)
    assert message.receive is not None
    return refuse_scattered(hca, qp, message.receive, pieces.why)


def execute_read(hca: Hca, qp: Qp, message: Message, offset: int, length: int) -> Views | Outcome:
    """Return the views of ``length`` bytes at ``offset`` of a READ's response.

    Each segment is checked again: without rre the result is that of ``invalid_request``, otherwise
    the outcomes are those of ``map_segment``.
    """
    if not qp.rre:
        return invalid_request(hca, qp, RxCheck.OP_VALID, "the queue pair does not allow READs")
    return map_next_segment(hca, qp, message, offset, length)


def execute_atomic(hca: Hca, qp: Qp, message: Message) -> int | Outcome:
    """Execute an atomic on guest memory; return the old value, which is the response (9.4.5).

    An unaligned address moves the queue pair to ERR: Nak (INVALID_REQUEST), on UC Dropped. Other
    outcomes are those of ``begin_rdma``. Memory is written only if the value changes. The request
    is counted in rx_atomic_requests.
    """
    if message.va % message.length:
        qp.count(REMOTE[message.op].counter)
        why = f"atomic at unaligned address {message.va:#x}"
        return invalid_request(hca, qp, RxCheck.EXECUTE, why)
    views = begin_rdma(hca, qp, message)
    if isinstance(views, Outcome):
        return views
    word = atomic_word(hca.caps, message.length)
    old: int = word.unpack(b"".join(views))[0]
    new = _swapped(message, old) if message.op in COMPARE_SWAPS else _added(message, old)
    if new != old:
        copy(views, (memoryview(word.pack(new)),))
    return old


def complete(hca: Hca, qp: Qp, message: Message, slid: int) -> Outcome | None:
    """Complete a message after its last byte: invalidate the key it names, write the receive CQE.

    Returns None, also for a message without a receive WQE. If the key cannot be invalidated, the
    WQE fails instead, and the outcome is that of ``invalidate``. IBTA 9.4.1.1.3, 10.8.5;
    rxe_resp.c: do_complete.
    """
    receive = message.receive
    if message.inv_rkey is not None:
        assert receive is not None
        pd = pd_of(hca, qp, message)
        if isinstance(pd, Outcome):
            return pd
        refused = invalidate(hca, qp, pd, message.inv_rkey, receive)
        if refused is not None:
            return refused
    if receive is not None and receive.wqe is not None:
        complete_receive(hca, qp, message, slid)
    return None


def _swapped(message: Message, old: int) -> int:
    if (old ^ message.compare) & message.compare_mask:
        return old
    return old & ~message.swap_add_mask | message.swap_add & message.swap_add_mask


def _added(message: Message, old: int) -> int:
    """Return the sum of ``old`` and ``swap_add``, modulo the operand's size, field by field.

    A set bit of ``compare`` is the top bit of a field, and no carry leaves the field (PRM "Masked
    FA").
    """
    boundaries, width = message.compare, 8 * message.length
    if not boundaries:
        return (old + message.swap_add) & (1 << width) - 1
    result = carry = 0
    for bit in range(width):
        total = (old >> bit & 1) + (message.swap_add >> bit & 1) + carry
        result |= (total & 1) << bit
        carry = 0 if boundaries >> bit & 1 else total >> 1
    return result

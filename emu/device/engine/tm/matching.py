"""Matches a message to a buffer: that of its tag, or a request of the receive queue.

The message's header has its kind. A message without a tag, or too short for its header, takes a
request of the receive queue unchanged. The same applies to a message that matches no entry, and to
a rendezvous request longer than the advertised limit or shorter than its headers. Software then
finds the buffer.

Source: rdma-core, Documentation/tag_matching.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.tm import rendezvous, reports
from emu.device.objects.memory.views import Views, part
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.srq import Srq
from emu.device.objects.queues.tag_list import TagEntry, TagList, TagMatch
from layouts.enums.cqe import CqeOpcode
from layouts.rings.tag_matching import TmAppOp
from layouts.wire.tmh import MAX_RNDV_BYTES, RNDV_BYTES, TMH, TmhOp, tmh

if TYPE_CHECKING:
    from emu.device.state.completions import Completions
    from emu.device.state.hca import Hca
    from emu.device.state.parts.scheduler import Scheduler

_ALL: Final = 1 << 62
"""Length above that of any message."""
_TMH_BYTES: Final = tmh.size
_HEAD_BYTES: Final = MAX_RNDV_BYTES + 1
"""Bytes that identify a message, and show that it is too long for a rendezvous."""
_TAGGED: Final = (TmhOp.EAGER, TmhOp.RNDV)


def arrive(hca: Hca, qp: Qp, srq: Srq, tags: TagList, message: Message) -> TagMatch:
    """Return the match of a SEND; a matching entry is removed from the tag list.

    The match has no entry for NO_TAG (no header, or another kind) and UNEXPECTED (no entry with
    this tag, or a rendezvous of unusual size). The state is then unchanged: the message needs a
    request of the receive queue, and is counted only once it has one (``count_unexpected``). An
    eager message of several packets reports CONSUMED at once.
    """
    head = bytes(message.head[:_HEAD_BYTES]) or b"".join(part(message.data, 0, _HEAD_BYTES))
    length = max(message.length, len(head))
    if length < _TMH_BYTES or head[0] not in _TAGGED:
        return TagMatch(TmAppOp.NO_TAG)
    opcode, _, tag = TMH.unpack_from(head)
    is_single = not message.has_more_packets and message.length <= qp.mtu_bytes
    is_rendezvous = opcode == TmhOp.RNDV
    if is_rendezvous and not (is_single and RNDV_BYTES <= length <= MAX_RNDV_BYTES):
        return TagMatch(TmAppOp.UNEXPECTED)
    entry = tags.match(tag)
    if entry is None:
        return TagMatch(TmAppOp.UNEXPECTED)
    if is_rendezvous:
        return _for_rendezvous(hca, qp, srq, entry, head[:RNDV_BYTES])
    header = head[:_TMH_BYTES]
    if is_single:
        return TagMatch(TmAppOp.CONSUMED_MSG, entry, header, _TMH_BYTES)
    tell_consumed(hca.cqes, qp, srq, entry, header)
    return TagMatch(TmAppOp.EXPECTED, entry, header, _TMH_BYTES)


def _for_rendezvous(hca: Hca, qp: Qp, srq: Srq, entry: TagEntry, header: bytes) -> TagMatch:
    """Return the match of a rendezvous: CONSUMED if the adapter fetches the data.

    Otherwise CONSUMED_MSG_SW_RNDV: the buffer gets the headers, and software fetches the data.
    """
    if rendezvous.can_fetch(hca, qp, srq, entry, header):
        return TagMatch(TmAppOp.CONSUMED, entry, header, _ALL)
    return TagMatch(TmAppOp.CONSUMED_MSG_SW_RNDV, entry, header)


def count_unexpected(tags: TagList, arrival: TagMatch) -> TagMatch:
    """Count an unexpected message that has taken a receive request; return ``arrival`` unchanged.

    From now on, added entries stay closed until software has handled the message. Any other match
    is not counted.
    """
    if arrival.app_op is TmAppOp.UNEXPECTED:
        tags.count_unexpected()
    return arrival


def uncount_unexpected(tags: TagList, arrival: TagMatch) -> None:
    """Uncount an unexpected message that does not fill its request, and so gets no completion.

    Any other match changes nothing.
    """
    if arrival.app_op is TmAppOp.UNEXPECTED:
        tags.count_unexpected(-1)


def tell_consumed(cqes: Completions, qp: Qp, srq: Srq, entry: TagEntry, header: bytes) -> None:
    """Report the first of two completions: a message has taken the entry, and its data follow."""
    app = TmAppOp.CONSUMED, entry.index
    reports.report(cqes, qp, srq, CqeOpcode.NO_PACKET, app, header[:_TMH_BYTES])


def placement(arrival: TagMatch, offset: int, data: Views, length: int) -> tuple[int, Views, int]:
    """Return the offset in the buffer, the views and the length for bytes of a message.

    The header of an eager message is skipped; a rendezvous by the adapter places nothing. For a
    rendezvous by software, data beyond the buffer's capacity are dropped. Without an entry the
    values are unchanged.
    """
    entry = arrival.entry
    if entry is None:
        return offset, data, length
    if arrival.app_op is TmAppOp.CONSUMED_MSG_SW_RNDV:
        fitting = max(min(length, entry.capacity - offset), 0)
        return offset, part(data, 0, fitting), fitting
    cut = min(max(arrival.skipped - offset, 0), length)
    if cut:
        return 0, part(data, cut, length - cut) if cut < length else (), length - cut
    return offset - arrival.skipped, data, length


def complete(
    cqes: Completions,
    scheduler: Scheduler,
    qp: Qp,
    message: Message,
    arrival: TagMatch,
    index: int,
    opcode: CqeOpcode,
    slid: int,
) -> None:
    """Write the CQE of a message after its last byte; ``index`` is that of its receive request.

    A matched entry is released, and its CQE has the entry's index and, in one packet, the header. A
    rendezvous that the adapter fetches reports only CONSUMED here; its entry is released with the
    data.
    """
    srq, entry = qp.srq, arrival.entry
    assert srq is not None
    assert srq.tags is not None
    immediate = message.inv_rkey if message.immediate is None else message.immediate
    report = index, message.length, immediate or 0, slid, message.solicited
    if entry is None:
        reports.report(cqes, qp, srq, opcode, (arrival.app_op, 0), b"", report)
        return
    if arrival.app_op is TmAppOp.CONSUMED:
        tell_consumed(cqes, qp, srq, entry, arrival.header)
        rendezvous.begin(cqes, scheduler, qp, srq, arrival, slid, message.solicited)
        return
    srq.tags.release(entry)
    front = b"" if arrival.app_op is TmAppOp.EXPECTED else arrival.header[:_TMH_BYTES]
    report = 0, message.length - arrival.skipped, immediate or 0, slid, message.solicited
    reports.report(cqes, qp, srq, opcode, (arrival.app_op, entry.index), front, report)

"""Which buffer a message takes: that of the tag it matches, or a request of the receive queue.

A message tells by its header what it is. What is no tagged message, or is too short for its header,
goes to the receive queue as it is. So does one that no entry matches, and a request for a
rendezvous that is longer than the adapter said it may be, or shorter than its headers: the software
looks for their buffers.

Source: rdma-core, Documentation/tag_matching.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.tm import rendezvous, reports
from emu.device.objects.memory.views import Views, part
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.srq import Srq
from emu.device.objects.queues.tag_list import Arrival, TagEntry, TagList
from layouts.enums import CqeOpcode
from layouts.rings.tag_matching import TmAppOp
from layouts.wire.tmh import MAX_RNDV_BYTES, RNDV_BYTES, TMH, TmhOp, tmh

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_ALL: Final = 1 << 62
"""More bytes than any message has."""
_TMH_BYTES: Final = tmh.size
_HEAD_BYTES: Final = MAX_RNDV_BYTES + 1
"""Enough of a message to see what it is, and that it is too long for a rendezvous."""
_TAGGED: Final = (TmhOp.EAGER, TmhOp.RNDV)


def arrive(hca: Hca, qp: Qp, srq: Srq, tags: TagList, message: Message) -> Arrival:
    """Look for the buffer of a SEND, and take it if there is one.

    Otherwise nothing has changed: the message needs a request of the receive queue, and counts only
    when it has one (``received``).
    """
    head = bytes(message.head[:_HEAD_BYTES]) or b"".join(part(message.data, 0, _HEAD_BYTES))
    length = max(message.length, len(head))
    if length < _TMH_BYTES or head[0] not in _TAGGED:
        return Arrival(TmAppOp.NO_TAG)
    opcode, _, tag = TMH.unpack_from(head)
    is_single = not message.has_more_packets and message.length <= qp.mtu_bytes
    is_rendezvous = opcode == TmhOp.RNDV
    if is_rendezvous and not (is_single and RNDV_BYTES <= length <= MAX_RNDV_BYTES):
        return Arrival(TmAppOp.UNEXPECTED)
    entry = tags.match(tag)
    if entry is None:
        return Arrival(TmAppOp.UNEXPECTED)
    if is_rendezvous:
        return _for_rendezvous(hca, qp, srq, entry, head[:RNDV_BYTES])
    header = head[:_TMH_BYTES]
    if is_single:
        return Arrival(TmAppOp.CONSUMED_MSG, entry, header, _TMH_BYTES)
    tell_consumed(hca, qp, srq, entry, header)
    return Arrival(TmAppOp.EXPECTED, entry, header, _TMH_BYTES)


def _for_rendezvous(hca: Hca, qp: Qp, srq: Srq, entry: TagEntry, header: bytes) -> Arrival:
    """The adapter fetches the data, or the software does: then the headers go into the buffer."""
    if rendezvous.can_fetch(hca, qp, srq, entry, header):
        return Arrival(TmAppOp.CONSUMED, entry, header, _ALL)
    return Arrival(TmAppOp.CONSUMED_MSG_SW_RNDV, entry, header)


def received(tags: TagList, arrival: Arrival) -> Arrival:
    """The message has got a request of the receive queue."""
    if arrival.app_op is TmAppOp.UNEXPECTED:
        tags.count_unexpected()
    return arrival


def lost(tags: TagList, arrival: Arrival) -> None:
    """It will not fill that request after all, and no completion tells the driver to count it."""
    if arrival.app_op is TmAppOp.UNEXPECTED:
        tags.count_unexpected(-1)


def tell_consumed(hca: Hca, qp: Qp, srq: Srq, entry: TagEntry, header: bytes) -> None:
    """The first completion of two: a message has taken the entry, and its data are on their way."""
    app = TmAppOp.CONSUMED, entry.index
    reports.report(hca, qp, srq, CqeOpcode.NO_PACKET, app, header[:_TMH_BYTES])


def placed(arrival: Arrival, offset: int, data: Views, length: int) -> tuple[int, Views, int]:
    """Where in the buffer bytes of a message go, and which ones do, and how many.

    Those of its header do not; nor does what the buffer has no room for, of a rendezvous that the
    software carries out.
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
    hca: Hca, qp: Qp, message: Message, arrival: Arrival, index: int, opcode: CqeOpcode, slid: int
) -> None:
    """The last byte of a message has come; ``index`` is that of its receive request."""
    srq, entry = qp.srq, arrival.entry
    assert srq is not None
    assert srq.tags is not None
    immediate = message.inv_rkey if message.immediate is None else message.immediate
    report = index, message.length, immediate or 0, slid, message.solicited
    if entry is None:
        reports.report(hca, qp, srq, opcode, (arrival.app_op, 0), b"", report)
        return
    if arrival.app_op is TmAppOp.CONSUMED:
        tell_consumed(hca, qp, srq, entry, arrival.header)
        rendezvous.begin(hca, qp, srq, arrival, slid, message.solicited)
        return
    srq.tags.release(entry)
    front = b"" if arrival.app_op is TmAppOp.EXPECTED else arrival.header[:_TMH_BYTES]
    report = 0, message.length - arrival.skipped, immediate or 0, slid, message.solicited
    reports.report(hca, qp, srq, opcode, (arrival.app_op, entry.index), front, report)

"""Receive WQEs: takes a queue's next WQE and finds the memory for a packet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.eth import queues
from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.mr.access import segment_views
from emu.device.engine.mr.access_error import TOO_FRAGMENTED, AccessError
from emu.device.objects.eth.rq import Rq
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.receive_queue import ListBrokenError, RecvWqe
from emu.device.ports import DmaError
from emu.device.rounds.budget import STEPS_PER_ACCESS
from emu.device.rounds.costs import LOG_SEGMENTS_PER_STEP, STEPS_PER_REFUSED_WQE
from emu.device.state.points import FaultPoint

if TYPE_CHECKING:
    from emu.device.port.eth.vport import NicVport
    from emu.device.port.link import PacketCounts
    from emu.device.state.hca import Hca

RECEIVE_POINT: Final[FaultPoint[[Rq, RecvWqe, int], bool]] = FaultPoint("wqe.rx")
"""Fault point: queue, WQE and packet length in bytes; returns whether the WQE may be filled."""

Placed = tuple[int, int, int, bytes]
"""Location of a packet: wqe_id, wqe_counter and byte_cnt of its CQE, and cqe64.shampo if its header
is elsewhere. A plain tuple, as one is made for each packet."""


def request(hca: Hca, rq: Rq) -> RecvWqe | None:
    """Return the queue's next receive WQE, taken from it; None if there is none.

    Without a posted WQE out_of_buffer counts. An unreadable ring raises WQ_CATAS_ERROR and moves
    the queue to ERR.
    """
    queue = rq.queue
    before = queue.read_ahead
    try:
        wqe = queue.take()
    except (DmaError, ListBrokenError) as error:
        queues.break_rq(hca.scheduler, hca.events, rq, error)
        return None
    if queue.read_ahead != before:
        hca.budget.charge((queue.read_ahead - before >> LOG_SEGMENTS_PER_STEP) + 1)
    if wqe is None:
        rq.count("out_of_buffer")
    return wqe


def target_of(hca: Hca, rq: Rq, wqe: RecvWqe, offset: int, length: int) -> Views | None:
    """Return the memory for a packet's bytes in a WQE; None when the packet is dropped.

    A bad key, or strides beyond the WQE's memory, complete the WQE with LOCAL_PROT_ERR and move the
    queue to ERR. A WQE that is too short (wqe_too_small) or too scattered (discards) goes back to
    the queue; on InfiniBand the link counts both.
    """
    try:
        limit, span = hca.budget.steps + STEPS_PER_ACCESS, (offset, length, LOCAL_WRITE)
        views, left = segment_views(hca, wqe.pd, rq.handle, wqe.segments, span, limit)
    except AccessError as error:
        if error.violation is not TOO_FRAGMENTED:
            queues.fail_receive(hca, rq, wqe.index, str(error), error.cause)
            return None
        hca.budget.charge(STEPS_PER_REFUSED_WQE)
        _count_discard(hca.vhca.nic_vport, hca.link)
    else:
        if not left:
            return views
        if rq.strides is not None:
            queues.fail_receive(
                hca, rq, wqe.index, "the WQE's memory is shorter than its strides", Cause.BOUNDS
            )
            return None
        _count_too_long(hca.vhca.nic_vport, hca.link)
    if rq.strides is None:
        rq.queue.give_back(wqe)
    return None


def _count_discard(vport: NicVport | None, link: PacketCounts) -> None:
    """Count a packet whose memory has too many segments, at the vPort or the InfiniBand link."""
    if vport is not None:
        vport.received.discards += 1
    else:
        link.dropped["to a receive request with too many segments"] += 1


def _count_too_long(vport: NicVport | None, link: PacketCounts) -> None:
    """Count a packet that exceeds its WQE, at the vPort or the InfiniBand link."""
    if vport is not None:
        vport.wqe_too_small += 1
    else:
        link.dropped["longer than its receive request"] += 1

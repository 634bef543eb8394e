"""Rendezvous by the adapter: fetches a message's data from the sender, and notifies the sender.

The READ and the final message (FIN) are requests of the queue pair that received the message
(``emu.device.objects.queues.rendezvous``). The two requests replace a program's, and obey the queue
pair's limits and retries. When the queue pair stops, running rendezvous end, and the driver may
reuse their entries.

Source: rdma-core, Documentation/tag_matching.md; UCX, rc_mlx5.inl (uct_rc_mlx5_handle_rndv_fin).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.mr.access import segment_views
from emu.device.engine.mr.access_error import TOO_FRAGMENTED, AccessError
from emu.device.engine.tm import reports
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.rendezvous import AdapterWqe, Rendezvous
from emu.device.objects.queues.send_queue import Wqe
from emu.device.objects.queues.srq import Srq
from emu.device.objects.queues.tag_list import TagEntry, TagMatch
from layouts.enums.cqe import CqeOpcode
from layouts.enums.qp import QpState
from layouts.enums.wqe import Opcode
from layouts.rings.tag_matching import TmAppOp
from layouts.rings.wqe import CTRL, DATA, DS, INLINE, RADDR, WQEBB
from layouts.wire.tmh import RNDV_BYTES, RVH, TmhOp, tmh

if TYPE_CHECKING:
    from emu.device.state.completions import Completions
    from emu.device.state.hca import Hca
    from emu.device.state.parts.scheduler import Scheduler

_RTS: Final = QpState.RTS
_READ_DS: Final = 3
_WORD_DS: Final = 1 + -(-(4 + RNDV_BYTES) // DS)


def can_fetch(hca: Hca, qp: Qp, srq: Srq, entry: TagEntry, header: bytes) -> bool:
    """Return whether the adapter can carry out a rendezvous; otherwise software does.

    True needs has_rendezvous and offload_type, the state RTS, one PD, and a length within buffer
    and log_msg_max. The buffer must also be writable for a READ; one too fragmented for one call
    is. No state changes.
    """
    _, _, length = RVH.unpack_from(header, tmh.size)
    is_set_up = srq.tags is not None and srq.tags.has_rendezvous and qp.offloads_rendezvous
    if not is_set_up or qp.state is not _RTS or qp.pd is not srq.pd:
        return False
    if length > entry.capacity or length > qp.max_message:
        return False
    try:
        segment_views(hca, qp.pd, qp.handle, entry.segments, (0, length, LOCAL_WRITE))
    except AccessError as error:
        return error.violation is TOO_FRAGMENTED
    return True


def begin(
    cqes: Completions,
    scheduler: Scheduler,
    qp: Qp,
    srq: Srq,
    arrival: TagMatch,
    slid: int,
    solicited: bool,
) -> None:
    """Queue the adapter's READ of the data for a rendezvous that has taken an entry.

    Without data the message is reported and FIN queued at once. The queue pair is scheduled.
    """
    va, rkey, length = RVH.unpack_from(arrival.header, tmh.size)
    own, entry = qp.adapter_requests, arrival.entry
    assert own is not None
    assert entry is not None
    one = Rendezvous(arrival, length, slid, solicited)
    own.running.append(one)
    if not length:
        _fetched(cqes, scheduler, qp, one)
        return
    ((_, lkey, address),) = entry.segments
    buf = (
        CTRL.pack(Opcode.RDMA_READ, qp.handle << 8 | _READ_DS, 0, 0)
        + RADDR.pack(va, rkey)
        + DATA.pack(length, lkey, address)
    )
    own.waiting.append(AdapterWqe(buf.ljust(WQEBB, b"\0"), one))
    scheduler.schedule(qp)


def done(cqes: Completions, scheduler: Scheduler, qp: Qp, wqe: Wqe) -> None:
    """Remove a finished request of the adapter's own from its queue.

    After the READ of a running rendezvous, the data are reported to the driver and FIN is sent.
    """
    assert isinstance(wqe, AdapterWqe)
    assert qp.adapter_requests is not None
    qp.adapter_requests.done(wqe)
    if wqe.rendezvous is not None and wqe.rendezvous in qp.adapter_requests.running:
        _fetched(cqes, scheduler, qp, wqe.rendezvous)


def _fetched(cqes: Completions, scheduler: Scheduler, qp: Qp, one: Rendezvous) -> None:
    """Report fetched data to the driver, release the entry, and queue FIN to the sender."""
    own, srq, entry = qp.adapter_requests, qp.srq, one.arrival.entry
    assert own is not None
    assert srq is not None
    assert srq.tags is not None
    assert entry is not None
    own.running.remove(one)
    srq.tags.release(entry)
    report = 0, one.length, 0, one.slid, one.solicited
    app = TmAppOp.EXPECTED, entry.index
    reports.report(cqes, qp, srq, CqeOpcode.RESP_SEND, app, b"", report)
    data = bytes((TmhOp.FIN,)) + one.arrival.header[1:]
    buf = (
        CTRL.pack(Opcode.SEND, qp.handle << 8 | _WORD_DS, 0, 0)
        + (INLINE | len(data)).to_bytes(4, "big")
        + data
    )
    own.waiting.append(AdapterWqe(buf.ljust(WQEBB, b"\0")))
    scheduler.schedule(qp)


def cancel(cqes: Completions, qp: Qp) -> None:
    """Cancel the adapter's unsent requests and running rendezvous of a stopped queue pair.

    Each rendezvous releases its entry and reports MSG_COMPLETION_CANCELED. Without a tag matching
    queue this does nothing.
    """
    own, srq = qp.adapter_requests, qp.srq
    if own is None or srq is None:
        return
    own.waiting.clear()
    running, own.running = own.running, []
    for one in running:
        if one.arrival.entry is not None:
            reports.cancel(cqes, qp, srq, one.arrival.entry)

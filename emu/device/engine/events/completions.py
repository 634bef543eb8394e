"""Completions: the CQE of a request that is done, filled or failed.

Source: PRM "Completion queue entry"; libmlx5 (get_resp_ctx_v0 and _v1) for the named receiver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.events.counters import count_error
from emu.device.engine.events.cq import notify_of
from emu.device.engine.events.error_syndromes import Cause, ErrorSyndrome, error_syndrome
from emu.device.engine.events.held import hold_or_write
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.srq import SrqForm
from emu.device.rounds.costs import STEPS_PER_ERROR
from emu.device.state.points import FaultPoint
from layouts.enums.cq import CqNotification
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.rings.cqe import (
    CQE,
    CQE_BYTES,
    ERR_CQE,
    OP_OWN,
    SCATTER_32,
    SCATTER_32_BYTES,
    SCATTER_64,
    SCATTER_64_BYTES,
    SEND_CQE,
    SIG_ERR_CQE,
    TIME_MASK,
    cqe64,
)

if TYPE_CHECKING:
    from emu.device.objects.queues.queue import Queue
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.objects.queues.srq import Srq
    from emu.device.objects.table import Table
    from emu.device.state.completions import Completions
    from emu.device.state.timer import FreeRunningTimer

CQE_POINT: Final[FaultPoint[[Cq, Queue, bytes, int, bool], bool]] = FaultPoint("cqe")

_WORD: Final = 0xFFFFFFFF
_pack_send: Final = SEND_CQE.pack
_pack_received: Final = CQE.pack
_REQ: Final = CqeOpcode.REQ << 4
_ARMED: Final = CqNotification.ARMED
_SOLICITED: Final = 1 << 1
_NAMED: Final = (SrqForm.XRC_SRQ, SrqForm.XRQ)

Received = tuple[int, int, int, int, int, int, bool, int]
"""Fields of a completion (``cqe64``) for a message that has filled a receive WQE: wqe_counter;
byte_cnt; number of the shared queue, 0 for the queue pair's own; immediate data, or the invalidated
key; flags_rqpn; slid; whether it is solicited; ml_path. A plain tuple, because each message makes
one.
"""


def now_for(ticks: FreeRunningTimer, queue: Queue) -> int:
    """Return the time stamp for a queue's completion: in real time format or in clock ticks."""
    return ticks.real_stamp() if queue.has_real_time else ticks.read()


def complete_send(cqes: Completions, cq: Cq, queue: Queue, wqe: Wqe, byte_cnt: int = 0) -> None:
    """Write the CQE of a send request that is done (REQ), with the bytes that it fetched.

    Response data that go into the CQE are scattered there. A CQE that is lost counts as
    cq_overflow.
    """
    ticks = cqes.ticks  # ``now_for`` without its two calls: a short message takes thirty
    now_ns = ticks.now_ns
    now = ticks.real_stamp() if queue.has_real_time else now_ns() * ticks.times // ticks.by
    entry = _pack_send(
        queue.uidx or 0, byte_cnt, now & TIME_MASK, wqe.opcode << 24 | queue.handle, wqe.index
    )  # fmt: skip
    op_own = _REQ
    if wqe.scattered is not None:
        entry, form = with_data(entry, bytes(wqe.scattered))
        op_own |= form
    report(cqes, cq, queue, entry, op_own, False)


def complete_sent(cqes: Completions, cq: Cq, queue: Queue, wqe: Wqe, now: int) -> None:
    """Write the CQE (REQ) of a request of frames that were sent at ``now``, as a time stamp.

    A CQE that is lost counts as cq_overflow.
    """
    entry = _pack_send(
        queue.uidx or 0, 0, now & TIME_MASK, wqe.opcode << 24 | queue.handle, wqe.index
    )  # fmt: skip
    report(cqes, cq, queue, entry, _REQ, False)


def complete_receive(
    cqes: Completions,
    srqs: Table[Srq],
    cq: Cq,
    queue: Queue,
    opcode: CqeOpcode,
    received: Received,
    data: bytes | None = None,
    extra: Mapping[str, int] | None = None,
) -> None:
    """Write the CQE of a message that has filled a receive WQE.

    ``data`` are 32 or 64 bytes for the CQE itself, within the CQ's entry size. ``extra`` are
    further fields of cqe64, which datagrams have. A CQE that is lost counts as cq_overflow.
    """
    wqe_counter, byte_cnt, srqn, immediate, flags_rqpn, slid, solicited, ml_path = received
    if srqn:
        srqn = _receiver(srqs, queue, srqn)
    elif queue.uidx is not None:
        srqn = queue.uidx
    ticks = cqes.ticks  # ``now_for`` without its two calls: a short message takes thirty
    now_ns = ticks.now_ns
    now = ticks.real_stamp() if queue.has_real_time else now_ns() * ticks.times // ticks.by
    entry = _pack_received(
        ml_path, slid, flags_rqpn, srqn, immediate, byte_cnt, now & TIME_MASK,
        queue.handle, wqe_counter,
    )  # fmt: skip
    if extra:
        whole = bytearray(entry + b"\0")
        cqe64.view(whole).assign(extra)
        entry = bytes(whole[:OP_OWN])
    op_own = opcode << 4 | (_SOLICITED if solicited else 0)
    if data is not None:
        entry, form = with_data(entry, data)
        op_own |= form
    report(cqes, cq, queue, entry, op_own, solicited)


def with_data(entry: bytes, data: bytes) -> tuple[bytes, int]:
    """Return an entry with 32 or 64 bytes of data, and its bits of op_own (scatter to CQE).

    64 bytes precede the entry: they are the first half of an entry of 128 bytes.
    """
    if len(data) == SCATTER_64_BYTES:
        return data + entry, SCATTER_64
    return data + entry[SCATTER_32_BYTES:], SCATTER_32


def fail_send(
    cqes: Completions,
    cq: Cq,
    queue: Queue,
    syndrome: CqeSyndrome,
    wqe_counter: int,
    wqe_opcode: int,
    cause: Cause = Cause.ANY,
) -> None:
    """Write a REQ_ERR CQE for a send request and count it; the queue's state is not changed.

    The syndrome's counter and req_cqe_error count. Errors count as solicited (IBTA 11.4.2.2).
    """
    cqes.errors += 1
    cqes.budget.charge(STEPS_PER_ERROR)
    count_error(queue, CqeOpcode.REQ_ERR, syndrome)
    entry = error_entry(
        queue, CqeOpcode.REQ_ERR, syndrome, cause, wqe_counter=wqe_counter, wqe_opcode=wqe_opcode,
        srqn=queue.uidx or 0,
    )  # fmt: skip
    report(cqes, cq, queue, entry, CqeOpcode.REQ_ERR << 4, True)


def fail_receive(
    cqes: Completions,
    srqs: Table[Srq],
    cq: Cq,
    queue: Queue,
    syndrome: CqeSyndrome,
    wqe_counter: int,
    srqn: int = 0,
    cause: Cause = Cause.ANY,
) -> None:
    """Write a RESP_ERR CQE for a receive WQE and count it; the queue's state is not changed.

    The syndrome's counter and resp_cqe_error count. ``srqn`` is 0 for the queue's own WQEs.
    """
    cqes.errors += 1
    cqes.budget.charge(STEPS_PER_ERROR)
    count_error(queue, CqeOpcode.RESP_ERR, syndrome)
    srqn = _receiver(srqs, queue, srqn)
    entry = error_entry(
        queue, CqeOpcode.RESP_ERR, syndrome, cause, wqe_counter=wqe_counter, srqn=srqn
    )
    report(cqes, cq, queue, entry, CqeOpcode.RESP_ERR << 4, True)


def _receiver(srqs: Table[Srq], queue: Queue, srqn: int) -> int:
    """Return the user index of the queue, or of an XRC SRQ or XRQ, for a receive completion.

    Without a user index return the shared queue's number, 0 for none (libmlx5: get_resp_ctx_v0 and
    _v1).
    """
    srq = srqs.get(srqn) if srqn else None
    if srq is not None and srq.form in _NAMED:
        return srqn if srq.uidx is None else srq.uidx
    return srqn if queue.uidx is None else queue.uidx


def report_signature(
    cqes: Completions,
    cq: Cq,
    queue: Queue,
    key: int,
    syndrome: int,
    domain: int,
    values: tuple[int, int, int],
) -> None:
    """Write a SIG_ERR CQE; ``values`` are found, computed (64 bits each), block offset.

    ``domain`` is 0 for the wire domain, 1 for the memory domain. The caller reports only the first
    error.
    """
    found, computed, offset = values
    entry = SIG_ERR_CQE.pack(
        found >> 32, computed >> 32, found & _WORD, computed & _WORD, syndrome, domain, key,
        offset, queue.handle,
    )  # fmt: skip
    report(cqes, cq, queue, entry, CqeOpcode.SIG_ERR << 4, True)


def report(
    cqes: Completions, cq: Cq, queue: Queue, entry: bytes, op_own: int, solicited: bool
) -> None:
    """Write an entry unless a fault plan suppresses it; raise the completion event if due.

    An entry that is not written counts as cq_overflow at ``queue``, also if a fault plan suppressed
    it.
    """
    pi, page = cq.pi, cq.page
    if pi < page.run_end:  # most entries: the queue does not compress, and no plan is in force
        view, start = page.view, page.run_base + pi * CQE_BYTES
        end = start + OP_OWN
        view[start:end] = entry
        view[end] = op_own | page.run_owner
        if cqes.probes.tracer:
            cqes.probes.tracer.cqe(cq.handle, entry, op_own | page.run_owner)
        cq.pi = pi + 1
        if solicited or cq.notification is _ARMED:
            notify_of(cqes.events, cq, solicited)
        return
    if cqes.probes.faults is not None:
        is_written = cqes.probes.faults.show(CQE_POINT, cq, queue, entry, op_own, solicited)
    else:
        is_written = hold_or_write(cqes, cq, entry, op_own, solicited)
    if not is_written:
        queue.count("cq_overflow")


def error_entry(
    queue: Queue,
    opcode: CqeOpcode,
    syndrome: CqeSyndrome,
    cause: Cause = Cause.ANY,
    *,
    wqe_counter: int,
    wqe_opcode: int = 0,
    srqn: int = 0,
    vendor: int | None = None,
) -> bytes:
    """Return the bytes of an error CQE before op_own.

    ``vendor`` None takes the vendor syndrome of the error's cause; any other value has no hardware
    syndrome. For a flush with ``cause`` ANY, the queue's state selects the cause.
    """
    if vendor is None:
        if syndrome is CqeSyndrome.WR_FLUSH_ERR and cause is Cause.ANY:
            cause = Cause.FAILURE if queue.has_failed else Cause.COMMAND
        found = error_syndrome(opcode, syndrome, cause)
    else:
        found = ErrorSyndrome(vendor, 0, "")
    return ERR_CQE.pack(
        srqn, found.hw, found.hw_type << 4, found.vendor, syndrome,
        wqe_opcode << 24 | queue.handle, wqe_counter & 0xFFFF,
    )  # fmt: skip

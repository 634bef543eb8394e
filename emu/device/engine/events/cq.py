"""Completion queues: how a CQE is written, and becomes an event perhaps.

The driver owns an entry when its owner bit equals the lap of the consumer index (hw/cq.c:
sw_own_cqe), so the owner byte is written after everything else. An event is raised once for each
arm: at once if there are entries that no event has reported (cqc.last_notified_index), otherwise
with the next (solicited) entry. Moderation delays an event until there are enough entries or enough
time has passed (PRM "CQ moderation").

A queue that overruns or whose memory is gone takes no more entries: an event tells its driver, and
the queue pairs that report to it stop (IBTA 10.2.5.2, 11.6.3.2).
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import TYPE_CHECKING

from emu.device.engine.events import eq as eq_engine
from emu.device.errors import CmdError
from emu.device.objects.memory.pages import PageList
from emu.device.objects.queues.cq import Cq, Moderation
from emu.device.ports import DmaError
from layouts.enums import (
    CqeOpcode,
    CqErrorSyndrome,
    CqNotification,
    CqStatus,
    EventType,
    Status,
)
from layouts.rings.cqe import CQE_BYTES, OP_OWN

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

INDEX_MASK = 0xFFFFFF
MODERATION_UNMEASURED_NS = 8_000
"""A moderation period up to this is shorter than a host timer can measure: no delay.

The driver's default starts at 1 us (lib/dim/rdma_dim.c), whatever the queue is used for.
"""
ARM_SOLICITED = 1 << 24
_EVENT_DATA = Struct(">24xI")
_ERROR_DATA = Struct(">I7xB")
_CONSUMER = Struct(">I")
_BYTES = [bytes((value,)) for value in range(256)]
_ARMED, _SOLICITED_ARMED = CqNotification.ARMED, CqNotification.SOLICITED_ARMED

_STATUSES = {
    CqErrorSyndrome.CQ_OVERRUN: CqStatus.CQ_OVERFLOW,
    CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR: CqStatus.CQ_WRITE_FAIL,
}

_FIRED, _COMP = CqNotification.FIRED, EventType.COMP


def write(hca: Hca, cq: Cq, entry: bytes, op_own: int, solicited: bool) -> bool:
    """Append an entry, and raise the event that is due; False when the entry is lost.

    ``entry`` is the CQE without its last byte, and behind the first half of a CQE of 128 bytes if
    there is anything in that; ``op_own`` is that byte without the owner bit.
    """
    if not _append(hca, cq, entry, op_own):
        return False
    if solicited:
        cq.solicited_pi = cq.pi
    if cq.notification is _ARMED or (solicited and cq.notification is _SOLICITED_ARMED):
        _notify(hca, cq, 1)
    return True


def _append(hca: Hca, cq: Cq, entry: bytes, op_own: int) -> bool:
    """Append an entry; False when it is lost."""
    if cq.status or (cq.pi - cq.ci >= cq.entries and not _room(hca, cq)):
        return False
    # An entry is aligned to its 64 bytes, so it lies in one page.
    at = (cq.pi & cq.entries - 1) * cq.stride + cq.stride - CQE_BYTES
    address = cq.buffer.address(at)
    op_own |= cq.pi >> cq.log_size & 1
    try:
        if len(entry) > OP_OWN:
            cq.buffer.write(at - CQE_BYTES, entry[:CQE_BYTES])
        hca.memory.write(address, entry[-OP_OWN:])
        hca.memory.write(address + OP_OWN, _BYTES[op_own])
    except DmaError as error:
        _break(hca, cq, CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR, str(error))
        return False
    if hca.tracer:
        hca.tracer.cqe(cq.handle, entry, op_own)
    cq.pi += 1
    return True


def _room(hca: Hca, cq: Cq) -> bool:
    """Read the consumer index; a queue that is really full breaks. False when it is broken."""
    try:
        cq.ci += _consumed(cq, _record(hca, cq)) or 0
    except DmaError as error:
        _break(hca, cq, CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR, str(error))
        return False
    if cq.pi - cq.ci < cq.entries or cq.ignores_overrun:
        return True
    _break(hca, cq, CqErrorSyndrome.CQ_OVERRUN, f"overrun, {cq.entries} entries")
    return False


def _record(hca: Hca, cq: Cq) -> int:
    """The consumer index in the doorbell record. Raises DmaError."""
    index: int
    (index,) = _CONSUMER.unpack(hca.memory.read(cq.dbr_addr, _CONSUMER.size))
    return index


def _consumed(cq: Cq, index: int) -> int | None:
    """How much further the driver has read at this index; None when it cannot have got there."""
    consumed = (index - cq.ci) & INDEX_MASK
    return consumed if consumed <= cq.pi - cq.ci else None


def _break(hca: Hca, cq: Cq, syndrome: CqErrorSyndrome, why: str) -> None:
    """Stop the queue and raise an error event."""
    log.warning("%r: %s: it takes no more completions; destroy it and its queues", cq, why)
    cq.status = _STATUSES[syndrome]
    hca.cq_overruns += syndrome is CqErrorSyndrome.CQ_OVERRUN
    eq_engine.raise_event(hca, EventType.CQ_ERROR, _ERROR_DATA.pack(cq.handle, syndrome))
    # The queue pair that reports now is in the middle of its turn: it is stopped afterwards.
    hca.broken_cqs.append(cq)


def arm(hca: Hca, uar_page: int, cqn: int, command: int) -> None:
    """The CQ doorbell: arm serial, which completions are wanted, and the consumer index.

    It only works in the page that the context names, which protects processes from each other.
    """
    cq = hca.cqs.get(cqn)
    if cq is None:
        log.warning("CQ doorbell ignored: no CQ has the number %#x", cqn)
        return
    if cq.uar_page != uar_page:
        log.warning("%r: doorbell ignored: it came by UAR %#x", cq, uar_page)
        return
    consumed = _consumed(cq, command)
    if consumed is not None:
        cq.ci += consumed
    elif (cq.ci - command) & INDEX_MASK > cq.entries:
        log.warning("%r: doorbell ignored: it moves the consumer index past the producer index", cq)
        return
    if command & ARM_SOLICITED:
        cq.notification, newest = _SOLICITED_ARMED, cq.solicited_pi
    else:
        cq.notification, newest = _ARMED, cq.pi
    # A consumer may arm before it polls: entries its last event reported must not wake it again.
    known = max(cq.ci, cq.notified_pi)
    if newest > known:
        _notify(hca, cq, newest - known)


def _notify(hca: Hca, cq: Cq, entries: int) -> None:
    """Raise the armed event for new entries, now or when moderation allows it."""
    held = cq.moderation
    if held is None:
        _fire(hca, cq)
        return
    held.entries += entries
    if held.entries >= held.max_count or held.period_ns <= MODERATION_UNMEASURED_NS:
        _fire(hca, cq)
        return
    if held.starts_from_cqe:
        held.due_ns = hca.clock.now_ns() + held.period_ns
    if held.timer is None:
        held.timer = hca.clock.call_later(held.period_ns, lambda: _period_is_over(hca, cq, held))


def _period_is_over(hca: Hca, cq: Cq, held: Moderation) -> None:
    """Raise the event, unless entries have started the period anew: then wait for the rest of it.

    An entry does not move the timer, as that would cost more than the entry.
    """
    rest_ns = held.due_ns - hca.clock.now_ns() if held.starts_from_cqe else 0
    if rest_ns > 0:
        held.timer = hca.clock.call_later(rest_ns, lambda: _period_is_over(hca, cq, held))
    else:
        _fire(hca, cq)


def _fire(hca: Hca, cq: Cq) -> None:
    cq.notification = _FIRED
    cq.notified_pi = cq.pi
    if cq.moderation is not None:
        cq.moderation.restart()
    eq_engine.post(hca, cq.eq, _COMP, 0, _EVENT_DATA.pack(cq.handle))


def moderate(hca: Hca, cq: Cq, moderation: Moderation | None) -> None:
    """Set the moderation; an event that was held back is raised now."""
    held, cq.moderation = cq.moderation, moderation
    if held is not None and held.timer is not None:
        held.restart()
        _fire(hca, cq)


def resize(hca: Hca, cq: Cq, buffer: PageList, log_size: int) -> None:
    """Write a RESIZE_CQ entry at the end of the old buffer and switch to the new one.

    That entry takes an index of its own, so the driver copies its unread entries to the new buffer
    one position further (hw/cq.c: copy_resize_cqes). It raises no event.

    Raises BAD_SIZE_OUTS_CQES_ERR when the old buffer has no room for that entry or the new one none
    for the unread ones, BAD_RES_STATE_ERR for a queue that is broken, and BAD_PARAM_ERR when its
    doorbell record is gone.
    """
    try:
        consumed = _consumed(cq, _record(hca, cq)) or 0
    except DmaError as error:
        raise CmdError(
            Status.BAD_PARAM_ERR, "doorbell record is not guest memory", str(error)
        ) from None
    unread = cq.pi - cq.ci - consumed
    if unread >= min(cq.entries, 1 << log_size):
        raise CmdError(Status.BAD_SIZE_OUTS_CQES_ERR, "more unread CQEs than room", f"{unread}")
    cq.ci += consumed
    if not _append(hca, cq, bytes(OP_OWN), CqeOpcode.RESIZE_CQ << 4):
        raise CmdError(Status.BAD_RES_STATE_ERR, "CQ is in error", f"{cq!r}")
    cq.ci += 1
    cq.solicited_pi += 1
    cq.notified_pi += 1
    cq.move(buffer, log_size)

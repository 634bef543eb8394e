"""Completion queues: write CQEs into the ring and raise completion events.

The driver owns an entry when its owner bit equals the lap of the consumer index (hw/cq.c:
sw_own_cqe), so the owner byte is written last. In the enhanced compression layout the byte before
the owner byte counts the laps (wq.h: mlx5_cqwq_get_cqe_enahnced_comp).

One event is raised for each arm: at once if entries exist that no event has reported
(cqc.last_notified_index), otherwise with the next (solicited) entry. Moderation delays an event
until enough entries are written or enough time has passed (PRM "CQ moderation").

A queue that overruns, or whose memory is gone, takes no more entries. An event notifies its driver,
and the queue pairs that report to it stop (IBTA 10.2.5.2, 11.6.3.2).
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import eq as eq_engine
from emu.device.engine.events.compression import VALIDITY
from emu.device.engine.events.eq import UNMEASURED_NS
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.memory.pages import PageList
from emu.device.objects.queues.cq import Cq, Moderation
from emu.device.ports import DmaError
from layouts.enums.cmd import Status
from layouts.enums.cq import CqNotification, CqStatus
from layouts.enums.cqe import CqeOpcode
from layouts.enums.eqe import CqErrorSyndrome, EventType
from layouts.rings.cqe import CQE_BYTES, OP_OWN

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.ports import GuestMemory
    from emu.device.state.completions import Completions
    from emu.device.state.events import Events

log = logging.getLogger(__name__)

ARM_SOLICITED: Final = 1 << 24
INDEX_MASK: Final = 0xFFFFFF
OP_OWN_BYTES: Final = [bytes((value,)) for value in range(256)]

_EVENT_DATA: Final = Struct(">24xI")
_ERROR_DATA: Final = Struct(">I7xB")
_CONSUMER: Final = Struct(">I")
_ARMED: Final = CqNotification.ARMED
_SOLICITED_ARMED: Final = CqNotification.SOLICITED_ARMED
_FIRED: Final = CqNotification.FIRED
_COMP: Final = EventType.COMP

_STATUSES: Final = {
    CqErrorSyndrome.CQ_OVERRUN: CqStatus.CQ_OVERFLOW,
    CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR: CqStatus.CQ_WRITE_FAIL,
}


def write(cqes: Completions, cq: Cq, entry: bytes, op_own: int, solicited: bool) -> bool:
    """Append an entry and raise the event that is due; return False when the entry is lost.

    ``entry`` is the CQE without its last byte. Data of a 128-byte CQE's first half precede it.
    ``op_own`` is the last byte without the owner bit. A full or unwritable ring breaks the CQ
    (CQ_ERROR). No packet may be held (``held.py``) when this is called.
    """
    if not append(cqes, cq, entry, op_own):
        return False
    if solicited or cq.notification is _ARMED:
        notify_of(cqes.events, cq, solicited)
    return True


def notify_of(events: Events, cq: Cq, solicited: bool) -> None:
    """Raise the event that is due for the entry that was just appended, if any."""
    if solicited:
        cq.solicited_pi = cq.pi
    if cq.notification is _ARMED or (solicited and cq.notification is _SOLICITED_ARMED):
        notify(events, cq, 1)


def append(cqes: Completions, cq: Cq, entry: bytes, op_own: int) -> bool:
    """Append an entry in the form of ``write``, without an event; return False when it is lost.

    The entry is lost if the CQ is broken. A full ring (unless overruns are ignored) or unwritable
    memory breaks the CQ now. No packet may be held when this is called.
    """
    pi = cq.pi
    if cq.status or (pi - cq.ci >= cq.entries and not _make_space(cqes, cq)):
        return False
    op_own |= pi >> cq.log_size & 1
    try:
        _put(cqes, cq, entry, op_own)
    except DmaError as error:
        break_queue(cqes, cq, CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR, str(error))
        return False
    if cqes.probes.tracer:
        cqes.probes.tracer.cqe(cq.handle, entry, op_own)
    cq.pi = pi + 1
    return True


def _put(cqes: Completions, cq: Cq, entry: bytes, op_own: int) -> None:
    """Write an entry where ``cq.pi`` is, and begin a run in its page if possible. Raise DmaError.

    ``op_own`` has the owner bit.
    """
    at = (cq.pi & cq.mask) * cq.stride + cq.last_half
    if cq.last_half and len(entry) > OP_OWN:
        cq.buffer.write(at - CQE_BYTES, entry[:CQE_BYTES])
        entry = entry[CQE_BYTES:]
    page = cq.page
    if cq.is_enhanced:
        write_valid(cqes.memory, cq, cq.buffer.address(at), entry, op_own)
    elif page.start <= at < page.limit or cqes.ring_pages.turn(
        page, cq.buffer, at, CQE_BYTES, writable=True
    ):
        start = at - page.start
        page.view[start : start + OP_OWN] = entry
        page.view[start + OP_OWN] = op_own
        cq.begin_run(at)
    else:
        address = cq.buffer.address(at)
        cqes.memory.write(address, entry)
        cqes.memory.write(address + OP_OWN, OP_OWN_BYTES[op_own])


def write_valid(memory: GuestMemory, cq: Cq, address: int, entry: bytes, op_own: int) -> None:
    """Write an entry of the enhanced layout. Raise DmaError."""
    memory.write(address, entry[:VALIDITY])
    memory.write(address + VALIDITY, bytes((cq.pi >> cq.log_size & 0xFF, op_own)))


def _make_space(cqes: Completions, cq: Cq) -> bool:
    """Read the consumer index from the doorbell record; return whether an entry may be written.

    Break the queue with CQ_OVERRUN if it is full, unless it ignores overruns. Break the queue with
    CQ_ACCESS_VIOLATION_ERROR if the doorbell record is unreadable.
    """
    try:
        cq.ci += newly_consumed(cq, record(cqes.memory, cq)) or 0
    except DmaError as error:
        break_queue(cqes, cq, CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR, str(error))
        return False
    if cq.pi - cq.ci < cq.entries or cq.ignores_overrun:
        return True
    break_queue(cqes, cq, CqErrorSyndrome.CQ_OVERRUN, f"overrun, {cq.entries} entries")
    return False


def record(memory: GuestMemory, cq: Cq) -> int:
    """Return the consumer index in the doorbell record. Raise DmaError."""
    index: int
    (index,) = _CONSUMER.unpack(memory.read(cq.dbr_addr, _CONSUMER.size))
    return index


def newly_consumed(cq: Cq, index: int) -> int | None:
    """Return the entries that the driver has read since ``cq.ci``; None for an impossible index."""
    further = (index - cq.ci) & INDEX_MASK
    return further if further <= cq.pi - cq.ci else None


def break_queue(cqes: Completions, cq: Cq, syndrome: CqErrorSyndrome, why: str) -> None:
    """Put the CQ into an error status for good, drop its held packets, and raise CQ_ERROR.

    The CQ takes no more entries. The queues that report to it stop in a later poll of the function.
    An overrun is also counted in ``cqes.overruns``, which the driver reads as cq_overrun.
    """
    log.warning("%r: %s: no more completions; destroy the CQ and its queues", cq, why)
    cq.status, cq.page.run_end = _STATUSES[syndrome], 0
    cq.waiting.clear()
    cqes.overruns += syndrome is CqErrorSyndrome.CQ_OVERRUN
    eq_engine.raise_event(cqes.events, EventType.CQ_ERROR, _ERROR_DATA.pack(cq.handle, syndrome))
    # The queue pair that reports now is being polled: stop it afterwards.
    cqes.scheduler.add_broken(cq)
    cqes.scheduler.wake()


def arm(events: Events, cqs: Table[Cq], uar_page: int, cqn: int, command: int) -> None:
    """Process the CQ doorbell: the consumer index, and the kind of completion to arm for.

    Raise the event at once if an unread entry exists that no event has reported. Log and ignore the
    doorbell for an unknown CQ, an impossible consumer index, or another UAR page than the
    context's.
    A CQ armed for any completion stays so when only solicited ones are requested (IBTA 11.4.2.2).
    The UAR page protects processes from each other.
    """
    cq = cqs.get(cqn)
    if cq is None:
        log.warning("CQ doorbell ignored: no CQ has the number %#x", cqn)
        return
    if cq.uar_page != uar_page:
        log.warning("%r: doorbell ignored: sent through UAR %#x", cq, uar_page)
        return
    consumed = newly_consumed(cq, command)
    if consumed is not None:
        cq.ci += consumed
    elif (cq.ci - command) & INDEX_MASK > cq.entries:
        log.warning("%r: doorbell ignored: consumer index past producer index", cq)
        return
    if command & ARM_SOLICITED and cq.notification is not _ARMED:
        cq.notification, newest = _SOLICITED_ARMED, cq.solicited_pi
    else:
        cq.notification, newest = _ARMED, cq.pi
    # A consumer may arm before it polls: entries of the last event must not raise another.
    known = max(cq.ci, cq.notified_pi)
    if newest > known:
        notify(events, cq, newest - known)


def notify(events: Events, cq: Cq, count: int) -> None:
    """Raise the armed event for ``count`` new entries, now or when moderation allows it.

    Without moderation, at max_count entries or with a period up to 8 us the event is immediate.
    """
    moderation = cq.moderation
    if moderation is None:
        _fire(events, cq)
        return
    moderation.entries += count
    if moderation.entries >= moderation.max_count or moderation.period_ns <= UNMEASURED_NS:
        _fire(events, cq)
        return
    if moderation.starts_from_cqe:
        moderation.due_ns = events.clock.now_ns() + moderation.period_ns
    if moderation.timer is None:
        moderation.timer = events.clock.call_later(
            moderation.period_ns, lambda: _period_is_over(events, cq, moderation)
        )


def _period_is_over(events: Events, cq: Cq, moderation: Moderation) -> None:
    """Raise the event, or wait for the rest of the period if entries have restarted it.

    An entry does not move the timer, because a timer costs more than the entry.
    """
    rest_ns = moderation.due_ns - events.clock.now_ns() if moderation.starts_from_cqe else 0
    if rest_ns > 0:
        moderation.timer = events.clock.call_later(
            rest_ns, lambda: _period_is_over(events, cq, moderation)
        )
    else:
        _fire(events, cq)


def _fire(events: Events, cq: Cq) -> None:
    """Post the completion event to the CQ's EQ, disarm the CQ and restart its moderation."""
    cq.notification = _FIRED
    cq.notified_pi = cq.pi
    if cq.moderation is not None:
        cq.moderation.restart()
    eq_engine.post(events, cq.eq, _COMP, 0, _EVENT_DATA.pack(cq.handle))


def moderate(events: Events, cq: Cq, moderation: Moderation | None) -> None:
    """Set the moderation, None for none; raise a delayed event now."""
    before, cq.moderation = cq.moderation, moderation
    if before is not None and before.timer is not None:
        before.restart()
        _fire(events, cq)


def resize(cqes: Completions, cq: Cq, buffer: PageList, log_size: int) -> None:
    """Write a RESIZE_CQ entry at the end of the old buffer and switch to the new one.

    The RESIZE_CQ entry takes an index of its own. The driver therefore copies its unread entries to
    the new buffer one position further (hw/cq.c: copy_resize_cqes). No event is raised for it. No
    packet may be held. Raises BAD_SIZE_OUTS_CQES_ERR when the old buffer has no space for the
    entry, or the new one none for the unread entries; BAD_RES_STATE_ERR for a broken queue;
    BAD_PARAM_ERR when the doorbell record is not guest memory. The CQ keeps its old buffer then.
    """
    try:
        consumed = newly_consumed(cq, record(cqes.memory, cq)) or 0
    except DmaError as error:
        raise BadParamError("doorbell record is not guest memory", str(error)) from None
    unread = cq.pi - cq.ci - consumed
    if unread >= min(cq.entries, 1 << log_size):
        raise CmdError(Status.BAD_SIZE_OUTS_CQES_ERR, "more unread CQEs than entries", f"{unread}")
    cq.ci += consumed
    if not append(cqes, cq, bytes(OP_OWN), CqeOpcode.RESIZE_CQ << 4):
        raise CmdError(Status.BAD_RES_STATE_ERR, "CQ is in error", f"{cq!r}")
    cq.ci += 1
    cq.solicited_pi += 1
    cq.notified_pi += 1
    cq.move(buffer, log_size)

"""Completion queues: write CQEs and raise completion events.

:mod:`~emu.device.engine.events.entries` writes the entries into the ring. One event is raised for
each arm: at once if entries exist that no event has reported (cqc.last_notified_index), otherwise
with the next (solicited) entry. Moderation delays an event until enough entries are written or
enough time has passed (PRM "CQ moderation").
"""

from __future__ import annotations

import logging
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import compression, entries
from emu.device.engine.events import eq as eq_engine
from emu.device.engine.events.interrupts import UNMEASURED_NS
from emu.device.errors import CmdError
from emu.device.objects.memory.pages import PageList
from emu.device.objects.queues.cq import Cq, Moderation
from emu.device.ports import DmaError
from emu.device.state.containment import contain
from layouts.enums import CqeOpcode, CqNotification, EventType, Status
from layouts.rings.cqe import OP_OWN

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

ARM_SOLICITED: Final = 1 << 24
_EVENT_DATA: Final = Struct(">24xI")
_ARMED: Final = CqNotification.ARMED
_SOLICITED_ARMED: Final = CqNotification.SOLICITED_ARMED

_FIRED: Final = CqNotification.FIRED
_COMP: Final = EventType.COMP


def write(hca: Hca, cq: Cq, entry: bytes, op_own: int, solicited: bool) -> bool:
    """Append an entry and raise the event that is due; return False when the entry is lost.

    ``entry`` is the CQE without its last byte. Data of a 128-byte CQE's first half precede it.
    ``op_own`` is the last byte without the owner bit. A compressing CQ may hold a packet until the
    round's gathering ends, and returns True. A full or unwritable ring breaks the CQ (CQ_ERROR).
    """
    if cq.compression is not None:
        if (
            hca.budget.is_gathering
            and compression.is_packet(entry, op_own)
            and entries.can_hold(hca, cq)
        ):
            _hold(hca, cq, entry)
            return True
        write_held(hca, cq)
    if not entries.append(hca, cq, entry, op_own):
        return False
    if solicited:
        cq.solicited_pi = cq.pi
    if cq.notification is _ARMED or (solicited and cq.notification is _SOLICITED_ARMED):
        _notify(hca, cq, 1)
    return True


def _hold(hca: Hca, cq: Cq, entry: bytes) -> None:
    """Keep a packet until the round's gathering ends, which calls :func:`write_held`."""
    if not cq.waiting:
        if not hca.holding:
            hca.budget.at_end(partial(contain, hca, partial(_settle_all, hca)))
        hca.holding.append(cq)
    cq.waiting.append(entry)


def _settle_all(hca: Hca) -> None:
    holding, hca.holding = hca.holding, []
    for cq in holding:
        write_held(hca, cq)


def write_held(hca: Hca, cq: Cq) -> None:
    """Write the held packets, compressed where possible, and raise the event if the CQ is armed.

    Do nothing when no packet is held.
    """
    count = entries.put_held(hca, cq)
    if count and cq.notification is _ARMED:
        _notify(hca, cq, count)


def arm(hca: Hca, uar_page: int, cqn: int, command: int) -> None:
    """Process the CQ doorbell: the consumer index, and the kind of completion to arm for.

    Raise the event at once if an unread entry exists that no event has reported. Log and ignore the
    doorbell for an unknown CQ, an impossible consumer index, or another UAR page than the
    context's.
    A CQ armed for any completion stays so when only solicited ones are requested (IBTA 11.4.2.2).
    The UAR page protects processes from each other.
    """
    cq = hca.cqs.get(cqn)
    if cq is None:
        log.warning("CQ doorbell ignored: no CQ has the number %#x", cqn)
        return
    if cq.uar_page != uar_page:
        log.warning("%r: doorbell ignored: sent through UAR %#x", cq, uar_page)
        return
    consumed = entries.newly_consumed(cq, command)
    if consumed is not None:
        cq.ci += consumed
    elif (cq.ci - command) & entries.INDEX_MASK > cq.entries:
        log.warning("%r: doorbell ignored: consumer index past producer index", cq)
        return
    if command & ARM_SOLICITED and cq.notification is not _ARMED:
        cq.notification, newest = _SOLICITED_ARMED, cq.solicited_pi
    else:
        cq.notification, newest = _ARMED, cq.pi
    # A consumer may arm before it polls: entries of the last event must not raise another.
    known = max(cq.ci, cq.notified_pi)
    if newest > known:
        _notify(hca, cq, newest - known)


def _notify(hca: Hca, cq: Cq, count: int) -> None:
    """Raise the armed event for ``count`` new entries, now or when moderation allows it.

    Without moderation, at max_count entries or with a period up to 8 us the event is immediate.
    """
    moderation = cq.moderation
    if moderation is None:
        _fire(hca, cq)
        return
    moderation.entries += count
    if moderation.entries >= moderation.max_count or moderation.period_ns <= UNMEASURED_NS:
        _fire(hca, cq)
        return
    if moderation.starts_from_cqe:
        moderation.due_ns = hca.clock.now_ns() + moderation.period_ns
    if moderation.timer is None:
        moderation.timer = hca.clock.call_later(
            moderation.period_ns, lambda: _period_is_over(hca, cq, moderation)
        )


def _period_is_over(hca: Hca, cq: Cq, moderation: Moderation) -> None:
    """Raise the event, or wait for the rest of the period if entries have restarted it.

    An entry does not move the timer, because a timer costs more than the entry.
    """
    rest_ns = moderation.due_ns - hca.clock.now_ns() if moderation.starts_from_cqe else 0
    if rest_ns > 0:
        moderation.timer = hca.clock.call_later(
            rest_ns, lambda: _period_is_over(hca, cq, moderation)
        )
    else:
        _fire(hca, cq)


def _fire(hca: Hca, cq: Cq) -> None:
    """Post the completion event to the CQ's EQ, disarm the CQ and restart its moderation."""
    cq.notification = _FIRED
    cq.notified_pi = cq.pi
    if cq.moderation is not None:
        cq.moderation.restart()
    eq_engine.post(hca, cq.eq, _COMP, 0, _EVENT_DATA.pack(cq.handle))


def moderate(hca: Hca, cq: Cq, moderation: Moderation | None) -> None:
    """Set the moderation, None for none; raise a delayed event now."""
    before, cq.moderation = cq.moderation, moderation
    if before is not None and before.timer is not None:
        before.restart()
        _fire(hca, cq)


def resize(hca: Hca, cq: Cq, buffer: PageList, log_size: int) -> None:
    """Write a RESIZE_CQ entry at the end of the old buffer and switch to the new one.

    The RESIZE_CQ entry takes an index of its own. The driver therefore copies its unread entries to
    the new buffer one position further (hw/cq.c: copy_resize_cqes). No event is raised for it.
    Raises BAD_SIZE_OUTS_CQES_ERR when the old buffer has no space for the entry, or the new one
    none for the unread entries; BAD_RES_STATE_ERR for a broken queue; BAD_PARAM_ERR when the
    doorbell record is not guest memory. The CQ keeps its old buffer then.
    """
    write_held(hca, cq)
    try:
        consumed = entries.newly_consumed(cq, entries.record(hca, cq)) or 0
    except DmaError as error:
        raise CmdError(
            Status.BAD_PARAM_ERR, "doorbell record is not guest memory", str(error)
        ) from None
    unread = cq.pi - cq.ci - consumed
    if unread >= min(cq.entries, 1 << log_size):
        raise CmdError(Status.BAD_SIZE_OUTS_CQES_ERR, "more unread CQEs than entries", f"{unread}")
    cq.ci += consumed
    if not entries.append(hca, cq, bytes(OP_OWN), CqeOpcode.RESIZE_CQ << 4):
        raise CmdError(Status.BAD_RES_STATE_ERR, "CQ is in error", f"{cq!r}")
    cq.ci += 1
    cq.solicited_pi += 1
    cq.notified_pi += 1
    cq.move(buffer, log_size)

"""Completion queues: how a CQE is written, and becomes an event perhaps.

How entries get into the ring is in :mod:`~emu.device.engine.events.entries`. An event is raised
once for each arm: at once if there are entries that no event has reported
(cqc.last_notified_index), otherwise with the next (solicited) entry. Moderation delays an event
until there are enough entries or enough time has passed (PRM "CQ moderation").
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
    """Append an entry, and raise the event that is due; False when the entry is lost.

    ``entry`` is the CQE without its last byte, and behind the first half of a CQE of 128 bytes if
    there is anything in that; ``op_own`` is that byte without the owner bit.
    """
    if cq.compression is not None:
        if (
            hca.budget.is_gathering
            and compression.is_packet(entry, op_own)
            and entries.has_room_to_hold(hca, cq)
        ):
            _hold(hca, cq, entry)
            return True
        settle(hca, cq)
    if not entries.append(hca, cq, entry, op_own):
        return False
    if solicited:
        cq.solicited_pi = cq.pi
    if cq.notification is _ARMED or (solicited and cq.notification is _SOLICITED_ARMED):
        _notify(hca, cq, 1)
    return True


def _hold(hca: Hca, cq: Cq, entry: bytes) -> None:
    """Keep a packet until the round's gathering ends."""
    if not cq.waiting:
        if not hca.holding:
            hca.budget.at_end(partial(contain, hca, partial(_settle_all, hca)))
        hca.holding.append(cq)
    cq.waiting.append(entry)


def _settle_all(hca: Hca) -> None:
    holding, hca.holding = hca.holding, []
    for cq in holding:
        settle(hca, cq)


def settle(hca: Hca, cq: Cq) -> None:
    """Write what is held, and raise the event that is due."""
    count = entries.put_held(hca, cq)
    if count and cq.notification is _ARMED:
        _notify(hca, cq, count)


def arm(hca: Hca, uar_page: int, cqn: int, command: int) -> None:
    """The CQ doorbell: arm serial, which completions are wanted, and the consumer index.

    Who waits for any completion goes on doing so when only solicited ones are asked for (IBTA
    11.4.2.2: a pending request for the next completion is not changed).
    It only works in the page that the context names, which protects processes from each other.
    """
    cq = hca.cqs.get(cqn)
    if cq is None:
        log.warning("CQ doorbell ignored: no CQ has the number %#x", cqn)
        return
    if cq.uar_page != uar_page:
        log.warning("%r: doorbell ignored: it came by UAR %#x", cq, uar_page)
        return
    consumed = entries.consumed(cq, command)
    if consumed is not None:
        cq.ci += consumed
    elif (cq.ci - command) & entries.INDEX_MASK > cq.entries:
        log.warning("%r: doorbell ignored: it moves the consumer index past the producer index", cq)
        return
    if command & ARM_SOLICITED and cq.notification is not _ARMED:
        cq.notification, newest = _SOLICITED_ARMED, cq.solicited_pi
    else:
        cq.notification, newest = _ARMED, cq.pi
    # A consumer may arm before it polls: entries its last event reported must not wake it again.
    known = max(cq.ci, cq.notified_pi)
    if newest > known:
        _notify(hca, cq, newest - known)


def _notify(hca: Hca, cq: Cq, count: int) -> None:
    """Raise the armed event for new entries, now or when moderation allows it."""
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
    """Raise the event, unless entries have started the period anew: then wait for the rest of it.

    An entry does not move the timer, as that would cost more than the entry.
    """
    rest_ns = moderation.due_ns - hca.clock.now_ns() if moderation.starts_from_cqe else 0
    if rest_ns > 0:
        moderation.timer = hca.clock.call_later(
            rest_ns, lambda: _period_is_over(hca, cq, moderation)
        )
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
    before, cq.moderation = cq.moderation, moderation
    if before is not None and before.timer is not None:
        before.restart()
        _fire(hca, cq)


def resize(hca: Hca, cq: Cq, buffer: PageList, log_size: int) -> None:
    """Write a RESIZE_CQ entry at the end of the old buffer and switch to the new one.

    That entry takes an index of its own, so the driver copies its unread entries to the new buffer
    one position further (hw/cq.c: copy_resize_cqes). It raises no event.

    Raises BAD_SIZE_OUTS_CQES_ERR when the old buffer has no room for that entry or the new one none
    for the unread ones, BAD_RES_STATE_ERR for a queue that is broken, and BAD_PARAM_ERR when its
    doorbell record is gone.
    """
    settle(hca, cq)
    try:
        consumed = entries.consumed(cq, entries.record(hca, cq)) or 0
    except DmaError as error:
        raise CmdError(
            Status.BAD_PARAM_ERR, "doorbell record is not guest memory", str(error)
        ) from None
    unread = cq.pi - cq.ci - consumed
    if unread >= min(cq.entries, 1 << log_size):
        raise CmdError(Status.BAD_SIZE_OUTS_CQES_ERR, "more unread CQEs than room", f"{unread}")
    cq.ci += consumed
    if not entries.append(hca, cq, bytes(OP_OWN), CqeOpcode.RESIZE_CQ << 4):
        raise CmdError(Status.BAD_RES_STATE_ERR, "CQ is in error", f"{cq!r}")
    cq.ci += 1
    cq.solicited_pi += 1
    cq.notified_pi += 1
    cq.move(buffer, log_size)

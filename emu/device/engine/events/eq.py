"""Event queues: write an EQE into the guest's ring and raise the interrupt.

An EQE belongs to the driver when its owner bit equals bit ``log_eq_size`` of the driver's consumer
index (core/lib/eq.h: next_eqe_sw). The driver initialises all owner bits to 1, so the first lap
writes 0. One interrupt is raised for each arm: at once if entries are unread, otherwise with the
next entry (PRM "EQ arming"; core/eq.c: eq_update_ci).

CONFIG_INT_MODERATION sets the shortest time between two interrupts of a vector. An earlier
interrupt is delayed until the time is over, together with all others of that vector (PRM "Interrupt
moderation"). No driver of Linux requests moderation; illumos' mlxcx does.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.objects.queues.eq import Eq, VectorModeration
from emu.device.ports import Buffer, DmaError
from emu.device.state.points import FaultPoint
from layouts.enums.eqe import EventType
from layouts.rings.eqe import EQE_BYTES, EQE_DATA_OFFSET

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.events import Events

log = logging.getLogger(__name__)

EQE_POINT: Final[FaultPoint[[Eq, EventType, int, Buffer], bool]] = FaultPoint("eqe")

INDEX_MASK: Final = 0xFFFFFF
UNMEASURED_NS: Final = 8_000
"""Longest time that is treated as no delay, of interrupts or of a CQ: a host timer is coarser.

mlx5_ib's default for a CQ starts at 1 us (lib/dim/rdma_dim.c), whatever the queue is used for.
"""
_OWNER: Final = EQE_BYTES - 1


def raise_event(events: Events, event: EventType, data: Buffer, sub_type: int = 0) -> bool:
    """Report an asynchronous event to the EQ that subscribes to it.

    Return False when no EQ subscribes, or when the event is lost (see :func:`post`).
    """
    eq = events.subscribers.get(event)
    return eq is not None and post(events, eq, event, sub_type, data)


def post(events: Events, eq: Eq, event: EventType, sub_type: int, data: Buffer) -> bool:
    """Write one EQE and, when the queue is armed, raise its vector; return False if it is lost.

    ``data`` is the event's data of at most 28 bytes. A fault plan may change or suppress the event.
    A full ring loses events until its driver reads. The device has no event for that: it counts
    them (QUERY_VNIC_ENV: comp_eq_overrun, async_eq_overrun). A ring whose page is no longer guest
    memory reports that permanently (eqc.status: EQ_WRITE_FAILURE).
    """
    if events.probes.faults is not None:
        return events.probes.faults.show(EQE_POINT, eq, event, sub_type, data)
    return write(events, eq, event, sub_type, data)


def is_full(eq: Eq) -> bool:
    """Return whether all entries are unread, so that the next event would be lost."""
    return eq.pi - eq.ci >= eq.entries


def write(events: Events, eq: Eq, event: EventType, sub_type: int, data: Buffer) -> bool:
    """Do the same as ``post``, without planned faults: return False when the event is lost.

    A full ring counts an overrun; the first one of a series is logged. Unwritable memory sets
    ``has_write_failed``.
    """
    if is_full(eq):
        eq.overruns += 1
        if not eq.is_losing:
            eq.is_losing = True
            log.warning(
                "%r: overrun: all %d entries are unread; %s and later events are lost until the"
                " driver reads", eq, eq.entries, event.name,
            )  # fmt: skip
        return False
    if eq.is_losing:
        eq.is_losing = False
        log.warning("%r: has space again: %d events lost so far", eq, eq.overruns)
    entry = bytearray(EQE_BYTES)
    entry[1] = event
    entry[3] = sub_type
    entry[EQE_DATA_OFFSET : EQE_DATA_OFFSET + len(data)] = data
    entry[_OWNER] = eq.pi >> eq.log_size & 1
    at = (eq.pi & eq.entries - 1) * EQE_BYTES
    page, rings = eq.page, events.ring_pages
    try:
        if page.start <= at < page.limit or rings.turn(
            page, eq.buffer, at, EQE_BYTES, writable=True
        ):
            start = at - page.start
            page.view[start : start + EQE_BYTES] = entry
        else:
            eq.buffer.write(at, entry)
    except DmaError as error:
        eq.has_write_failed = True
        log.warning("%r: %s event lost: %s", eq, event.name, error)
        return False
    if events.probes.tracer:
        events.probes.tracer.eqe(eq.handle, event, sub_type, data)
    eq.pi += 1
    _fire_if_armed(events, eq)
    return True


def doorbell(
    events: Events, eqs: Table[Eq], uar_page: int, eqn: int, ci: int, *, arm: bool
) -> None:
    """Process the EQ doorbell: take the 24-bit consumer index, and arm the queue if requested.

    With ``arm`` and unread entries, raise the interrupt at once. Log and ignore the doorbell for an
    unknown EQ, an impossible index, or another UAR page than the context's. The page check keeps a
    process of the guest, which has its own page, from dropping events of the kernel's queue.
    """
    eq = eqs.get(eqn)
    if eq is None:
        log.warning("EQ doorbell ignored: no EQ has the number %#x", eqn)
        return
    if eq.uar_page != uar_page:
        log.warning("%r: doorbell ignored: sent through UAR %#x", eq, uar_page)
        return
    consumed = (ci - eq.ci) & INDEX_MASK
    if consumed > eq.pi - eq.ci:
        log.warning("%r: doorbell ignored: consumes %d of %d entries", eq, consumed, eq.pi - eq.ci)
        return
    eq.ci += consumed
    if arm:
        eq.armed = True
        if eq.pi != eq.ci:
            _fire_if_armed(events, eq)


def _fire_if_armed(events: Events, eq: Eq) -> None:
    """Disarm an armed queue and raise its interrupt; do nothing for an unarmed one."""
    if not eq.armed:
        return
    eq.armed = False
    _fire(events, eq)


def _fire(events: Events, eq: Eq) -> None:
    """Raise the interrupt of an EQ's vector, now or when the vector's moderation allows it.

    Do nothing if an interrupt of the vector is already delayed. Delays up to 8 us count as none.
    """
    moderation = events.vector_moderation.get(eq.vector)
    if moderation is None:
        _raise(events, eq.vector, eq.handle)
    elif moderation.timer is None:
        rest_ns = moderation.ready_ns - events.clock.now_ns()
        raise_now = partial(_raise_now, events, eq.vector, eq.handle, moderation)
        if rest_ns > UNMEASURED_NS:
            moderation.timer = events.clock.call_later(rest_ns, raise_now)
        else:
            raise_now()


def moderate(events: Events, vector: int, delay_ns: int) -> None:
    """Set the least time between a vector's interrupts, 0 for none; raise a delayed one now."""
    moderation = events.vector_moderation.pop(vector, None)
    if delay_ns:
        events.vector_moderation[vector] = VectorModeration(delay_ns)
    if moderation is not None and moderation.timer is not None:
        moderation.stop()
        events.interrupts.trigger(vector)


def quiesce(events: Events) -> None:
    """Remove the moderation of all vectors; delayed interrupts are never raised."""
    for moderation in events.vector_moderation.values():
        moderation.stop()
    events.vector_moderation.clear()


def _raise_now(events: Events, vector: int, eqn: int, moderation: VectorModeration) -> None:
    moderation.timer = None
    moderation.ready_ns = events.clock.now_ns() + moderation.delay_ns
    _raise(events, vector, eqn)


def _raise(events: Events, vector: int, eqn: int) -> None:
    if events.probes.tracer:
        events.probes.tracer.irq(vector, eqn)
    events.interrupts.trigger(vector)

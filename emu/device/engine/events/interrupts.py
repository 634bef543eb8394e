"""Interrupts of event queues: raised at once, or delayed by the vector's moderation.

CONFIG_INT_MODERATION sets the shortest time between two interrupts of a vector. An earlier
interrupt is delayed until the time is over, together with all others of that vector (PRM "Interrupt
moderation"). No driver of Linux requests moderation; illumos' mlxcx does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.objects.queues.vector_moderation import VectorModeration

if TYPE_CHECKING:
    from emu.device.objects.queues.eq import Eq
    from emu.device.state.events import Events

UNMEASURED_NS: Final = 8_000
"""Longest time that is treated as no delay, of interrupts or of a CQ: a host timer is coarser.

mlx5_ib's default for a CQ starts at 1 us (lib/dim/rdma_dim.c), whatever the queue is used for.
"""


def fire(events: Events, eq: Eq) -> None:
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

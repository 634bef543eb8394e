"""How an event queue's interrupt is raised: at once, or not too soon after the last of its vector.

CONFIG_INT_MODERATION sets the shortest time between two interrupts of a vector. One that would
come sooner is held back until the time is over, with all that want to come meanwhile (PRM
"Interrupt moderation"; no driver of Linux asks for it, illumos' mlxcx does).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.objects.queues.vector_moderation import VectorModeration

if TYPE_CHECKING:
    from emu.device.objects.queues.eq import Eq
    from emu.device.state.hca import Hca

UNMEASURED_NS: Final = 8_000
"""A time up to this is shorter than a host timer can measure: no delay, of interrupts or of a CQ.

mlx5_ib's default for a CQ starts at 1 us (lib/dim/rdma_dim.c), whatever the queue is used for.
"""


def fire(hca: Hca, eq: Eq) -> None:
    """An armed queue has an event."""
    moderation = hca.vector_moderation.get(eq.vector)
    if moderation is None:
        _raise(hca, eq.vector, eq.handle)
    elif moderation.timer is None:
        rest_ns = moderation.ready_ns - hca.clock.now_ns()
        its_time = partial(_its_time, hca, eq.vector, eq.handle, moderation)
        if rest_ns > UNMEASURED_NS:
            moderation.timer = hca.clock.call_later(rest_ns, its_time)
        else:
            its_time()


def moderate(hca: Hca, vector: int, delay_ns: int) -> None:
    """Set the time between two interrupts; one that is held back comes now."""
    moderation = hca.vector_moderation.pop(vector, None)
    if delay_ns:
        hca.vector_moderation[vector] = VectorModeration(delay_ns)
    if moderation is not None and moderation.timer is not None:
        moderation.stop()
        hca.interrupts.trigger(vector)


def quiesce(hca: Hca) -> None:
    """Forget the settings and what waits."""
    for moderation in hca.vector_moderation.values():
        moderation.stop()
    hca.vector_moderation.clear()


def _its_time(hca: Hca, vector: int, eqn: int, moderation: VectorModeration) -> None:
    moderation.timer = None
    moderation.ready_ns = hca.clock.now_ns() + moderation.delay_ns
    _raise(hca, vector, eqn)


def _raise(hca: Hca, vector: int, eqn: int) -> None:
    if hca.tracer:
        hca.tracer.irq(vector, eqn)
    hca.interrupts.trigger(vector)

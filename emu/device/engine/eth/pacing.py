"""Send queues that keep to rates: they wait for their time by the device's clock.

Rates come from the table of packet pacing (one of its entries for a queue), from the queue's group
and the scheduling elements above it, from those of the function's vPort, which the manager of the
switch has made, and from the port's traffic class of the queue's priority.

Source: core/en_main.c: mlx5e_set_sq_maxrate; core/en/qos.c; core/en_dcbnl.c:
mlx5e_dcbnl_ieee_setmaxrate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.objects.eth.pacing import Limit, Pacing, SchedulingElement
from emu.device.objects.eth.sq import Sq
from layouts.enums import PortType
from layouts.eth_enums import SqState

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_BPS_PER_KBPS: Final = 1000
_LOG_STEPS: Final = 3
"""Queues that one step looks at."""


def apply(hca: Hca, sq: Sq) -> None:
    """Find out by which rates the queue has to go from now on."""
    limits = []
    rate = hca.rate_limits.get(sq.ctx.packet_pacing_rate_limit_index)
    if rate is not None:
        limits.append(Limit(rate.kbps * _BPS_PER_KBPS, rate.burst_bytes))
    if sq.tis is not None and hca.model.port_type is PortType.ETH:
        limit = hca.eth.qos.limit_of(sq.tis.prio)
        if limit is not None:
            limits.append(limit)
    if sq.pacing is not None:
        sq.pacing.rest()
    leaves = tuple(leaf for leaf in (sq.group, _of_vport(hca)) if leaf is not None)
    sq.pacing = Pacing(tuple(limits), leaves) if limits or leaves else None
    go_on(hca, sq)


def _of_vport(hca: Hca) -> SchedulingElement | None:
    """The element of the function's vPort in the tree of the switch."""
    manager = hca.vhca.adapter.manager.node
    if manager is None or manager.eswitch is None:
        return None
    return manager.eswitch.vport(hca.vhca.vport_number).element


def apply_to_all(hca: Hca, concerns: Callable[[Sq], bool] = lambda _: True) -> None:
    """As :func:`apply`, for the function's queues that a change ``concerns``."""
    hca.round.charge(len(hca.sqs) >> _LOG_STEPS)
    for sq in hca.sqs:
        if concerns(sq):
            apply(hca, sq)


def wait(hca: Hca, sq: Sq, delay_ns: int) -> None:
    """The queue goes on in so many nanoseconds, if a change does not let it go on before."""
    if sq.timer is None:
        sq.timer = hca.clock.call_later(delay_ns, partial(go_on, hca, sq))


def go_on(hca: Hca, sq: Sq) -> None:
    """Look again whether the queue may send."""
    if sq.timer is not None:
        sq.stop_waiting()
        if sq.state is SqState.RDY:
            hca.schedule(sq)

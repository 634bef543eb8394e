"""Send queues that keep to rates: they wait for their time by the device's clock.

Rates come from the table of packet pacing (one of its entries for a queue), from the queue's group
and the scheduling elements above it, from those of the function's vPort, which the manager of the
switch has made, and from the port's traffic class of the queue's priority.

Source: core/en_main.c: mlx5e_set_sq_maxrate; core/en/qos.c; core/en_dcbnl.c:
mlx5e_dcbnl_ieee_setmaxrate.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from emu.device.objects.eth.pacing import Pacing, SchedulingElement, Terms
from emu.device.objects.eth.sq import AnySq
from emu.device.rounds.costs import LOG_LISTED_PER_STEP, STEPS_PER_NEW_PACING, STEPS_PER_REPACING
from emu.device.rounds.portions import Portions
from layouts.enums import PortType
from layouts.eth_enums import SqState

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


def apply(hca: Hca, sq: AnySq) -> None:
    """Find out by which rates the queue has to go from now on.

    A queue whose terms are the same stays in debt for what it has sent.
    """
    sq.pacing = _by(_terms(hca, sq), sq.pacing)
    go_on(hca, sq)


def _by(terms: Terms, present: Pacing | None) -> Pacing | None:
    """The pacing by these terms: the present one, with its debt, if they are its own."""
    if present is not None:
        if present.terms == terms:
            return present
        present.rest()
    return Pacing(terms) if any(terms) else None


def _terms(hca: Hca, sq: AnySq) -> Terms:
    of_class = None
    if sq.tis is not None and hca.model.port_type is PortType.ETH:
        of_class = hca.eth.qos.limit_of(sq.tis.prio)
    return Terms(
        hca.rate_limits.get(sq.ctx.packet_pacing_rate_limit_index),
        of_class,
        tuple(leaf for leaf in (sq.group, _element_of_vport(hca)) if leaf is not None),
    )


def apply_to_roce(hca: Hca) -> None:
    """As :func:`apply`, for RoCE: all its frames share what is left of the vPort's rate."""
    element = _element_of_vport(hca)
    leaves = () if element is None else (element,)
    hca.roce_pacing = _by(Terms(None, None, leaves), hca.roce_pacing)


def _element_of_vport(hca: Hca) -> SchedulingElement | None:
    """The element of the function's vPort in the tree of the switch."""
    manager = hca.vhca.adapter.manager.node
    if manager is None or manager.eswitch is None:
        return None
    return manager.eswitch.vport(hca.vhca.vport_number).element


def apply_to_all(hca: Hca) -> None:
    """As :func:`apply`, for all of the function's queues: some now, the others in the next rounds.

    When another rate changes before the last of them, all begin again after it. RoCE knows at once.
    """
    apply_to_roce(hca)
    hca.has_new_rates = True
    if not hca.repacing:
        hca.repacing.begin(_apply_to_all(hca))


def _apply_to_all(hca: Hca) -> Portions[None]:
    while hca.has_new_rates:
        hca.has_new_rates = False
        hca.budget.charge(len(hca.sqs) >> LOG_LISTED_PER_STEP)
        for sq in list(hca.sqs):
            if hca.budget.exhausted(hca.budget.limit):
                yield
            hca.budget.charge(STEPS_PER_REPACING)
            if hca.sqs.get(sq.handle) is sq:
                before = sq.pacing
                apply(hca, sq)
                if sq.pacing is not before:
                    hca.budget.charge(STEPS_PER_NEW_PACING)


def wait(hca: Hca, sq: AnySq, delay_ns: int) -> None:
    """The queue goes on in so many nanoseconds, if a change does not let it go on before."""
    if sq.timer is None:
        sq.timer = hca.clock.call_later(delay_ns, partial(go_on, hca, sq))


def go_on(hca: Hca, sq: AnySq) -> None:
    """Look again whether the queue may send."""
    if sq.timer is not None:
        sq.stop_waiting()
        if sq.state is SqState.RDY:
            hca.schedule(sq)

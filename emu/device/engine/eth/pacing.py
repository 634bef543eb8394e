"""Rate limits of send queues, measured by the device's clock.

A queue obeys up to four rates. Its entry in the packet pacing table limits the queue alone. Its
group and the scheduling elements above limit several queues. The vPort's scheduling elements,
created by the switch's manager, limit the function. The traffic class of its priority has the
port's rate.

The manager may limit a vPort by traffic class. The class of a queue is then that of its TIS, until
a frame has another priority: adapters move such a queue to the frame's class
(tools/testing/selftests/drivers/net/hw/devlink_rate_tc_bw.py). RoCE's frames leave in order, each
by the rate of its class.

Source: core/en_main.c: mlx5e_set_sq_maxrate; core/en/qos.c; core/en_dcbnl.c:
mlx5e_dcbnl_ieee_setmaxrate.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from emu.device.objects.eth.pacing import Pacing, Terms
from emu.device.objects.eth.sq import AnySq
from emu.device.port.eth.traffic import frame_priority
from emu.device.rounds.costs import LOG_LISTED_PER_STEP, STEPS_PER_NEW_PACING, STEPS_PER_REPACING
from emu.device.rounds.portions import Portions
from layouts.enums.wq import SqState

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.ports import Clock
    from emu.device.state.eswitch import EswVport
    from emu.device.state.hca import Hca
    from emu.device.state.parts.rates import Rates
    from emu.device.state.parts.scheduler import Scheduler


def apply(hca: Hca, sq: AnySq) -> None:
    """Set a queue's pacing by the current rates, cancel its timer, and poll it anew if it waited.

    A queue whose terms are unchanged keeps its debt. A queue without any rate has no pacing.
    """
    sq.pacing = _by(_terms(hca.rates, hca.vhca, sq), sq.pacing)
    go_on(hca.scheduler, sq)


def _by(terms: Terms, present: Pacing | None) -> Pacing | None:
    """Return a pacing for these terms, None without any rate.

    The present one is kept, with its debt, if its terms are equal. Otherwise its claims are
    released.
    """
    if present is not None:
        if present.terms == terms:
            return present
        present.stop_waiting()
    return Pacing(terms, present) if any(terms) else None


def _terms(rates: Rates, vhca: Vhca[Hca], sq: AnySq) -> Terms:
    """Return the rates that apply to a queue: its own, its traffic class's, scheduling elements."""
    of_class, traffic_class = None, 0
    if sq.tis is not None and vhca.nic_vport is not None:
        qos = vhca.nic_vport.port.qos
        of_class, traffic_class = qos.limit_of(sq.tis.prio), qos.class_of(sq.tis.prio)
    if sq.traffic_class is not None:
        traffic_class = sq.traffic_class
    vport = _vport_of(vhca)
    leaves = (sq.group, vport.leaf(traffic_class) if vport is not None else None)
    return Terms(
        rates.limits.get(sq.ctx.packet_pacing_rate_limit_index),
        of_class,
        tuple(leaf for leaf in leaves if leaf is not None),
        vport is not None and bool(vport.classes),
    )


def follow_frame(hca: Hca, sq: AnySq, pacing: Pacing, data: bytes) -> Pacing:
    """Move a queue, whose vPort has rates by traffic class, to the frame's class.

    ``pacing`` is the queue's; the one that then applies is returned.
    """
    qos = hca.eth.qos
    traffic_class = qos.priority_to_class[frame_priority(qos, data)]
    if traffic_class != sq.traffic_class:
        sq.traffic_class = traffic_class
        sq.pacing = _by(_terms(hca.rates, hca.vhca, sq), pacing)
        hca.budget.charge(STEPS_PER_NEW_PACING)
    return sq.pacing or pacing


def apply_to_roce(rates: Rates, vhca: Vhca[Hca]) -> None:
    """Set the pacing of RoCE: all its frames share one, under the rate of vPort or class."""
    vport = _vport_of(vhca)
    element = None if vport is None else vport.leaf(rates.roce_class)
    leaves = () if element is None else (element,)
    by_class = vport is not None and bool(vport.classes)
    rates.roce = _by(Terms(None, None, leaves, by_class), rates.roce)


def roce_class(hca: Hca, frame: bytes, sqn: int, sl: int | None) -> int:
    """Return the traffic class of a RoCE frame; 0 while the vPort has no rates by traffic class.

    Without VLAN tag, and unless the port trusts DSCP, the priority is ``sl``, that of a datagram's
    address vector, or without one that of the path of queue pair ``sqn``.
    """
    if hca.rates.roce is None or not hca.rates.roce.terms.by_class:
        return 0
    qos = hca.eth.qos
    priority = frame_priority(qos, frame)
    if not priority and not qos.trusts_dscp:
        qp = hca.qps.get(sqn)
        priority = sl if sl is not None else qp.eth_prio if qp is not None else 0
    return qos.priority_to_class[priority]


def follow_roce(hca: Hca, traffic_class: int) -> None:
    """Move RoCE to the traffic class of its next frame, if its vPort has rates by class."""
    rates = hca.rates
    if rates.roce is not None and rates.roce.terms.by_class and traffic_class != rates.roce_class:
        rates.roce_class = traffic_class
        apply_to_roce(rates, hca.vhca)
        hca.budget.charge(STEPS_PER_NEW_PACING)


def _vport_of(vhca: Vhca[Hca]) -> EswVport | None:
    """Return the switch's state of the function's vPort; None outside a switch."""
    manager = vhca.adapter.manager.node
    if manager is None or manager.eswitch is None:
        return None
    return manager.eswitch.vport(vhca.vport_number)


def apply_to_all(hca: Hca) -> None:
    """Do :func:`apply` for all queues of the function, spread over several rounds.

    A rate change before the last queue restarts the pass when it ends. RoCE is updated at once.
    """
    apply_to_roce(hca.rates, hca.vhca)
    hca.rates.have_changed = True
    if not hca.rates.repacing:
        hca.rates.repacing.begin(_apply_to_all(hca))


def _apply_to_all(hca: Hca) -> Portions[None]:
    while hca.rates.have_changed:
        hca.rates.have_changed = False
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


def wait(scheduler: Scheduler, clock: Clock, sq: AnySq, delay_ns: int) -> None:
    """Resume the queue after ``delay_ns``, unless a change resumes it earlier.

    Do nothing if the queue waits already: the earlier timer counts.
    """
    if sq.timer is None:
        sq.timer = clock.call_later(delay_ns, partial(go_on, scheduler, sq))


def go_on(scheduler: Scheduler, sq: AnySq) -> None:
    """Cancel the queue's timer, and poll the queue if it waited and is in RDY. Else do nothing."""
    if sq.timer is not None:
        sq.stop_waiting()
        if sq.state is SqState.RDY:
            scheduler.schedule(sq)

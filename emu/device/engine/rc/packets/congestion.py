"""Congestion notifications of connected queue pairs over RoCE (IBTA A17.9).

A received packet with an ECN mark is answered by a CNP, at most one in ``min_time_between_cnps``
for each queue pair. A CNP from the peer slows the queue pair down (``rate.py``) and has no other
effect. A flood of CNPs at worst reduces the flow to the lowest rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.rc.packets.connection import connection_of
from emu.device.engine.rc.packets.rate import FlowRate
from emu.device.rounds.costs import LOG_INTERVALS_PER_STEP, STEPS_PER_NOTICE
from layouts.enums import QpState

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.port.congestion import Congestion
    from emu.device.state.hca import Hca

_NS_PER_US: Final = 1000


def answer_mark(hca: Hca, qp: Qp, congestion: Congestion) -> None:
    """Send a CNP to the peer for a packet with an ECN mark, and count the mark.

    No CNP is sent, nor np_cnp_sent counted, within min_time_between_cnps of the last one, without
    np_enabled for the priority, or without a source GID.
    """
    congestion.counts["np_ecn_marked_roce_packets"] += 1
    priority = int(qp.ctx.primary_address_path.eth_prio)
    connection, now = connection_of(hca, qp), hca.clock.now_ns()
    if not congestion.np_enabled[priority] or now < connection.next_cnp_ns:
        return
    connection.next_cnp_ns = now + congestion.np.min_time_between_cnps * _NS_PER_US
    frame = hca.roce.notification(qp.ctx.primary_address_path, qp.remote_qpn)
    if frame:
        congestion.counts["np_cnp_sent"] += 1
        hca.link.count_sent(1, len(frame))
        hca.wire.transmit(hca, frame, qp.handle)


def obey(hca: Hca, qp: Qp, congestion: Congestion) -> None:
    """Reduce the rate of a queue pair whose peer has sent a CNP; count rp_cnp_handled.

    Outside RTS, and without rp_enabled for the priority, only rp_cnp_ignored is counted.
    """
    priority = int(qp.ctx.primary_address_path.eth_prio)
    if not congestion.rp_enabled[priority] or qp.state is not QpState.RTS:
        congestion.counts["rp_cnp_ignored"] += 1
        return
    congestion.counts["rp_cnp_handled"] += 1
    connection, now = connection_of(hca, qp), hca.clock.now_ns()
    rate = connection.rate
    if rate is None:
        rate = FlowRate(congestion, now)
        connection.limit(rate)
    before = rate.made_up
    rate.notified(now)
    hca.budget.charge(STEPS_PER_NOTICE + (rate.made_up - before >> LOG_INTERVALS_PER_STEP))

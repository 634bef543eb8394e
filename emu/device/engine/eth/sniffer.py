"""Sniffers: copies of a function's packets for tables of types SNIFFER_RX and SNIFFER_TX.

Each received or sent packet is processed normally, and a copy passes the tables of its direction,
whose entries lead to TIRs. Looped packets count in both directions. While a sniffer table is a
root, RoCE messages inside the process become packets. A copy is dropped when no receive WQE is
posted, or when too many copies wait before it.

Sources: PRM "Flow steering"; core/fs_core.c: init_sniffer_rx_root_ns; ib/fs.c: create_sniffer_rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth.deliver import deliver
from emu.device.engine.eth.sessions import take as take_or_hold
from emu.device.engine.eth.steering.domain import decide
from emu.device.engine.eth.steering.route import queues_of
from emu.device.objects.eth.flow.domain import FlowDomain
from emu.device.port.eth.headers import FrameError, parse
from emu.device.port.eth.plain import plain
from emu.device.rounds.costs import LOG_CUT_PER_STEP, STEPS_PER_DECISION
from emu.device.rounds.portions import Portions

if TYPE_CHECKING:
    from emu.device.port.eth.frame import Frame
    from emu.device.state.hca import Hca


def copy(hca: Hca, domain: FlowDomain, frame: Frame) -> None:
    """Copy a frame to the SNIFFER_RX or SNIFFER_TX tables, if any, now or in the next rounds.

    A full backlog drops the copy, counted in ``dropped``.
    """
    if domain.root is not None and not hca.backlogs.sniffed.do(
        len(frame.data), _begin, hca, domain, frame
    ):
        hca.link.dropped["sniffer backlog is full"] += 1


def _begin(hca: Hca, domain: FlowDomain, frame: Frame) -> None:
    hca.backlogs.sniffed.begin(_copies(hca, domain, frame), len(frame.data))


def _copies(hca: Hca, domain: FlowDomain, frame: Frame) -> Portions[None]:
    """Deliver copies of a frame's packets to the queues to which the domain's tables lead.

    A packet without complete headers, or that the tables cannot change, ends the copying.
    """
    try:
        packets = plain(frame)
        hca.budget.charge(len(packets) >> LOG_CUT_PER_STEP)
        for data in packets:
            while hca.budget.exhausted(hca.budget.limit):
                yield
            hca.budget.charge(STEPS_PER_DECISION)
            headers = parse(data, whole=False)
            before = domain.steps
            decision = decide(domain, headers, len(data), clock=hca.clock)
            hca.budget.charge(domain.steps - before)
            for to in queues_of(hca.budget, decision, headers, None):
                while hca.budget.exhausted(hca.budget.limit):
                    yield
                if to.merging is None and to.rq.reservations is None:
                    deliver(hca, headers, False, to)
                else:
                    take_or_hold(hca, headers, False, to)
    except FrameError:
        return

"""Routing of a received frame: from the root flow table to its receive queues.

Flow table entries lead to TIRs. A TIR leads to its RQ, or selects one from its RQT by a hash. The
caller has checked the frame's length and the link, and delivers the frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.engine.eth.steering.domain import decide, decide_beside
from emu.device.engine.eth.steering.rewrite import cost_of, head, rewrite
from emu.device.objects.domains import LoopbackSource
from emu.device.objects.eth.flow.domain import Decision
from emu.device.objects.eth.flow.table import FlowTable
from emu.device.objects.eth.reshape import Steps
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.tir import Merging, Tir
from emu.device.port.eth.headers import Headers, despite_length
from emu.device.port.eth.traffic import GROUP_BIT
from layouts.enums.flow_table import FlowTableType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emu.device.objects.eth.flow.domain import FlowDomain
    from emu.device.rounds.budget import Budget
    from emu.device.state.hca import Hca

_NIC_RX: Final = FlowTableType.NIC_RX


_new: Final = tuple.__new__
"""Constructs a named tuple in a fifth of the time."""


class Delivery(NamedTuple):
    """A receive queue that gets the frame, and the steering results for its CQE."""

    rq: Rq
    rss_hash_result: int
    rss_hash_type: int
    flow_tag: int
    """Flow tag of the last entry that had one; 0 without."""
    steps: Steps | None = None
    """Changes to make before delivery."""
    merging: Merging | None = None
    """Merging rules for packets that arrive together; None for a changed frame."""
    describes_inner: bool = False
    """Whether the CQE describes the inner packet of a tunnel."""


def route(
    hca: Hca,
    headers: Headers,
    octets: int,
    packets: int = 1,
    source: LoopbackSource | None = None,
    root: FlowTable | None = None,
) -> list[Delivery] | None:
    """Return the receive queues of a frame, and update the flow counters on its path.

    None for a super-frame whose packets meters or samplers must see one by one; nothing is counted.

    ``octets`` is its length without FCS; a super-frame stands for ``packets`` packets of ``octets``
    bytes in all. ``source`` is the function's own send queue that sent the frame, None for a frame
    from the wire; ``Tir.takes`` filters by it. ``root`` is the first table for an underlay's
    packets.
    A queue is listed once per entry that leads to it. An empty list means that the frame is
    discarded; the caller counts that. Raises FrameError for an impossible change. Only headers
    matter: an IP packet whose length exceeds its frame is steered normally (rdma-core's
    tests/utils.py: gen_packet).
    """
    domain = hca.flow_domains.get(_NIC_RX)
    if domain is None:
        return []
    headers = despite_length(headers)
    before = domain.steps
    try:
        clock = None if packets > 1 else hca.clock
        decision = decide(domain, headers, octets, packets, root, clock)
    finally:
        hca.budget.charge(domain.steps - before)
    if packets > 1 and decision.asks is not None:
        return None
    return queues_of(hca.budget, decision, headers, source)


def route_beside(
    budget: Budget,
    flow_domains: Mapping[int, FlowDomain],
    headers: Headers,
    octets: int,
    packets: int = 1,
) -> list[Delivery] | None:
    """Return the receive queues of a frame that another port of the LAG received.

    The function is the LAG's master. None when its tables leave the frame to that port's own
    function: without a demux table, or on a miss. An empty list means that the tables discard the
    frame. Flow counters on the path count in each case.
    """
    domain = flow_domains.get(_NIC_RX)
    if domain is None or not domain.demuxes:
        return None
    headers = despite_length(headers)
    before = domain.steps
    try:
        decision = decide_beside(domain, headers, octets, packets)
    finally:
        budget.charge(domain.steps - before)
    if decision.missed and not decision.deliveries:
        return None
    return queues_of(budget, decision, headers, None)


def queues_of(
    budget: Budget, decision: Decision, headers: Headers, source: LoopbackSource | None
) -> list[Delivery]:
    """Return the receive queues to which a decision leads; ``source`` is that of :func:`route`.

    TIRs that do not take the looped frame are left out. Raises FrameError when a change of the
    packet is impossible.
    """
    if decision.rewrites:
        return _route_changed(budget, decision, headers, source)
    queues: list[Delivery] = []
    for target, tag in decision.deliveries:
        assert isinstance(target, Tir)  # entries lead to tables and TIRs only
        if source is not None and not target.takes(
            source, is_multicast=bool(headers.frame[0] & GROUP_BIT)
        ):
            continue
        rq, value, kind = target.queue_of(headers)
        queues.append(
            _new(Delivery, (rq, value, kind, tag, None, target.merging, target.describes_inner))
        )
    return queues


def _route_changed(
    budget: Budget, decision: Decision, headers: Headers, source: LoopbackSource | None
) -> list[Delivery]:
    """Return the receive queues for a decision that changes the packet for some of them.

    A TIR hashes the packet after its changes. Raises FrameError when a change is impossible.
    """
    queues: list[Delivery] = []
    is_multicast = bool(headers.frame[0] & GROUP_BIT)
    for (target, tag), steps in zip(decision.deliveries, decision.rewrites, strict=True):
        assert isinstance(target, Tir)
        if source is not None and not target.takes(source, is_multicast=is_multicast):
            continue
        after = headers
        if steps is not None and steps.in_frame:
            before = headers if steps.reshapes else head(headers)
            budget.charge(cost_of(steps, len(before.frame)))
            after = rewrite(before, steps)
        queues.append(
            Delivery(*target.queue_of(after), tag, steps, describes_inner=target.describes_inner)
        )
    return queues

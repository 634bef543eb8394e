"""The way of a received frame from the root of the flow tables to its receive queues.

Flow table entries lead to TIRs; a TIR leads to its RQ, or hashes and picks one from its RQT. The
frame has to be checked before (length, link); what is done at the RQ is up to the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.engine.eth.steering.domain import decide, decide_beside
from emu.device.engine.eth.steering.rewrite import head, marked, rewrite
from emu.device.objects.domains import LoopbackSource
from emu.device.objects.eth.flow import Decision, FlowTable
from emu.device.objects.eth.reshape import Steps
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.tir import Merging, Tir
from emu.device.port.eth.headers import ETH_IPV4, ETH_IPV6, Headers, Marked, parse
from emu.device.rounds.costs import LOG_BYTES_PER_STEP, LOG_CHANGES_PER_STEP
from layouts.eth_enums import FlowTableType

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_NIC_RX: Final = FlowTableType.NIC_RX
_IP: Final = frozenset({ETH_IPV4, ETH_IPV6})
_GROUP_BIT: Final = 1
"""Of a MAC address's first byte."""


_new: Final = tuple.__new__
"""Makes a named tuple in a fifth of the time."""


class Delivery(NamedTuple):
    """A receive queue that gets the frame, and what its completion says of the way there."""

    rq: Rq
    rss_hash_result: int
    rss_hash_type: int
    flow_tag: int
    """Of the last flow table entry on the way that had one; 0 without."""
    steps: Steps | None = None
    """What is done with the frame before it is delivered."""
    merging: Merging | None = None
    """How packets that come together may be merged; None for a changed frame."""
    looks_inside: bool = False
    """Whether the completion is about the packet inside, if it is a tunnel's."""


def route(
    hca: Hca,
    headers: Headers,
    octets: int,
    packets: int = 1,
    source: LoopbackSource | None = None,
    root: FlowTable | None = None,
) -> list[Delivery]:
    """Find the receive queues of a frame, and count it in the flow counters that it passes.

    ``octets`` is its length without frame check sequence; a super-frame stands for ``packets`` of
    so many octets in all. ``source`` is the function's own send queue that has sent the frame, None
    for one from the wire; which TIRs take it is up to ``Tir.takes``. ``root`` is where the packets
    of an underlay begin. Each queue is there once for each entry that leads to it. An empty list is
    a frame to be discarded.

    Steering looks at headers only: an IP packet that should be longer than its frame goes the same
    way as a whole one (rdma-core's tests send such: tests/utils.py, gen_packet).
    """
    domain = hca.flow_domains.get(_NIC_RX)
    if domain is None:
        return []
    if not headers.version and headers.ethertype in _IP:
        headers = _as_far_as_it_goes(headers)
    before = domain.steps
    decision = decide(domain, headers, octets, packets, root, hca.clock)
    hca.budget.charge(domain.steps - before)
    return queues_of(hca, decision, headers, source)


def route_beside(
    hca: Hca, headers: Headers, octets: int, packets: int = 1
) -> list[Delivery] | None:
    """As :func:`route`, for a frame that has come by another port of the LAG whose master this is.

    None when the master's tables leave it to that port's own function.
    """
    domain = hca.flow_domains.get(_NIC_RX)
    if domain is None or domain.root is None or not domain.demuxes:
        return None
    if not headers.version and headers.ethertype in _IP:
        headers = _as_far_as_it_goes(headers)
    before = domain.steps
    decision = decide_beside(domain, headers, octets, packets)
    hca.budget.charge(domain.steps - before)
    if decision.missed and not decision.deliveries:
        return None
    return queues_of(hca, decision, headers, None)


def queues_of(
    hca: Hca, decision: Decision, headers: Headers, source: LoopbackSource | None
) -> list[Delivery]:
    """Return the receive queues that a decision leads to; ``source`` is as of :func:`route`."""
    if decision.rewrites:
        return _route_changed(hca, decision, headers, source)
    queues: list[Delivery] = []
    for target, tag in decision.deliveries:
        assert isinstance(target, Tir)  # entries lead to tables and TIRs only
        if source is not None and not target.takes(
            source, is_multicast=bool(headers.frame[0] & _GROUP_BIT)
        ):
            continue
        rq, value, kind = target.queue_of(headers)
        queues.append(
            _new(Delivery, (rq, value, kind, tag, None, target.merging, target.looks_inside))
        )
    return queues


def _as_far_as_it_goes(headers: Headers) -> Headers:
    """The headers of an IP packet that is cut off."""
    packet = parse(headers.frame, whole=False)
    if isinstance(headers, Marked):
        return marked(packet, headers.registers, headers.source)
    return packet


def _route_changed(
    hca: Hca, decision: Decision, headers: Headers, source: LoopbackSource | None
) -> list[Delivery]:
    """As :func:`route`, for a decision that changes the packet for some that get it.

    A TIR's hash is over the packet as it is delivered. Raises FrameError when a packet cannot be
    changed as an entry says.
    """
    queues: list[Delivery] = []
    is_multicast = bool(headers.frame[0] & _GROUP_BIT)
    for (target, tag), steps in zip(decision.deliveries, decision.rewrites, strict=True):
        assert isinstance(target, Tir)
        if source is not None and not target.takes(source, is_multicast=is_multicast):
            continue
        after = headers
        if steps is not None and steps.in_frame:
            copied = steps.reshapes * len(headers.frame) >> LOG_BYTES_PER_STEP
            hca.budget.charge((len(steps.changes) >> LOG_CHANGES_PER_STEP) + copied)
            after = rewrite(headers if steps.reshapes else head(headers), steps)
        queues.append(
            Delivery(*target.queue_of(after), tag, steps, looks_inside=target.looks_inside)
        )
    return queues

"""A packet in flow tables that forward it: the switch's tables and NIC_TX.

The packet may be a super-frame. A change that needs whole packets applies to each of its packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.steering.domain import decide
from emu.device.engine.eth.steering.rewrite import cost_of, rewrite
from emu.device.objects.eth.flow.domain import Decision, FlowDomain
from emu.device.objects.eth.flow.table import FlowTable
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import UPLINK, FrameError, Headers, Marked, despite_length, parse
from emu.device.port.eth.plain import header_bytes, plain
from emu.device.rounds.costs import LOG_CUT_PER_STEP

if TYPE_CHECKING:
    from emu.device.objects.eth.reshape import Steps
    from emu.device.ports import Clock
    from emu.device.rounds.budget import Budget

MAX_SEGMENTED_PACKETS: Final = 2048
"""Number of packets cut from one super-frame, over all receivers. More are dropped."""


def stands_for(frame: Frame, headers: Headers | None = None) -> tuple[int, int]:
    """Return the number of packets for which a frame stands, and their bytes in all.

    A plain frame stands for itself. Raises FrameError for a super-frame without complete headers or
    payload: tables may have removed it.
    """
    if frame.gso_size <= 0:
        return 1, len(frame.data)
    header = header_bytes(headers or parse(frame.data, whole=False))
    payload = len(frame.data) - header
    if not payload:
        raise FrameError("super-frame without payload")
    packets = -(-payload // frame.gso_size)
    return packets, packets * header + payload


def counts_of(frame: Frame) -> tuple[int, int]:
    """Return :func:`stands_for`; a super-frame without complete headers counts as one packet."""
    try:
        return stands_for(frame)
    except FrameError:
        return 1, len(frame.data)


class PacketContext:
    """A frame in a table pipeline, and the number and size of its packets."""

    __slots__ = ("frame", "headers", "octets", "packets", "parsed")

    def __init__(self, frame: Frame, source: int) -> None:
        """Parse a frame; ``source`` is its source (``headers.source_of``).

        An IP packet whose length exceeds its frame is steered by its headers, as in ``route``.
        Raises FrameError for a frame without complete headers.
        """
        is_large = frame.gso_size > 0
        headers = parse(frame.data, not is_large)
        self.parsed = None if is_large else headers
        """Headers of a whole frame, before any change."""
        headers = despite_length(headers)
        self.frame = frame
        self.headers = Marked(headers, {}, source)
        if self.headers.source_port != UPLINK:  # otherwise the queue is one of another adapter
            self.headers.sqn = frame.sqn
        if is_large:
            self.packets, self.octets = stands_for(frame, headers)
        else:
            self.packets, self.octets = 1, len(frame.data)


def each_of(
    packet: PacketContext, headers: Marked, budget: Budget
) -> Iterator[tuple[PacketContext, Marked]]:
    """Yield the packets of a super-frame, with all checksums and the source and registers of it.

    Raises FrameError for a super-frame that cannot be segmented. Charges the budget.
    """
    budget.charge(packet.packets >> LOG_CUT_PER_STEP)
    now = packet.frame
    for data in plain(Frame(headers.frame, now.gso_size, now.checked, now.filled)):
        one = PacketContext(Frame(data), headers.source)
        one.headers.copy_state(headers)
        one.headers.registers = headers.registers
        yield one, one.headers


def apart(
    packet: PacketContext, headers: Marked, budget: Budget
) -> Iterable[tuple[PacketContext, Marked]]:
    """Return the packets of a super-frame for meters and samplers.

    Above MAX_SEGMENTED_PACKETS the result is empty, so the whole super-frame is dropped.
    """
    if 1 < packet.packets <= MAX_SEGMENTED_PACKETS:
        return each_of(packet, headers, budget)
    return ()


def decision_on(
    domain: FlowDomain,
    packet: PacketContext,
    headers: Marked,
    budget: Budget,
    root: FlowTable | None = None,
    clock: Clock | None = None,
) -> Decision:
    """Return a domain's decision about a packet, count the packet, and charge the cost.

    ``root`` and ``clock`` are those of ``domain.decide``, and so is the FrameError that it raises.
    """
    before = domain.steps
    try:
        return decide(domain, headers, packet.octets, packet.packets, root, clock)
    finally:
        budget.charge(domain.steps - before)


def through(
    domain: FlowDomain, packet: PacketContext, headers: Marked, budget: Budget
) -> Marked | None:
    """Return the packet behind a domain's tables, changed by them; None when they drop it.

    A packet that misses, or without a root, passes unchanged. Raises FrameError for an impossible
    change.
    """
    if domain.root is None:
        return headers
    decision = decision_on(domain, packet, headers, budget)
    if decision.allowed:
        return after(headers, decision.allowed_rewrites, budget)
    return headers if decision.missed else None


def after(headers: Marked, steps: Steps | None, budget: Budget) -> Marked:
    """Return the packet after these steps, and charge their cost; unchanged for None.

    Raises FrameError when a step is impossible.
    """
    if steps is None:
        return headers
    budget.charge(cost_of(steps, len(headers.frame)))
    return rewrite(headers, steps)

"""A packet on its way through flow tables that send it on: the switch's, and those before it.

It may stand for several (a super-frame). What changes a whole packet is done to each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.steering.domain import decide
from emu.device.engine.eth.steering.rewrite import marked, rewrite
from emu.device.objects.eth.flow import Decision, FlowDomain, FlowTable
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import Headers, Marked, parse
from emu.device.port.eth.plain import header_bytes, plain
from emu.device.rounds.costs import (
    LOG_BYTES_PER_STEP,
    LOG_CHANGES_PER_STEP,
    LOG_CUT_PER_STEP,
    STEPS_PER_REWRITE,
)

if TYPE_CHECKING:
    from emu.device.objects.eth.reshape import Steps
    from emu.device.ports import Clock
    from emu.device.rounds.budget import Budget

MAX_SEGMENTED_PACKETS: Final = 2048
"""Packets that are cut out of one super-frame, over all that get them. More are lost."""


def stands_for(frame: Frame, headers: Headers | None = None) -> tuple[int, int]:
    """Number of packets that a frame stands for, and all their octets.

    Raises FrameError for a super-frame without complete headers.
    """
    if frame.gso_size <= 0:
        return 1, len(frame.data)
    header = header_bytes(headers or parse(frame.data, whole=False))
    payload = len(frame.data) - header
    packets = -(-payload // frame.gso_size)
    return packets, packets * header + payload


class Packet:
    """A frame on its way, and what it stands for."""

    __slots__ = ("frame", "headers", "octets", "packets")

    def __init__(self, frame: Frame, source: int) -> None:
        """``source`` is where it comes from (``headers.source_of``).

        Raises FrameError for one without complete headers.
        """
        headers = parse(frame.data, whole=False)
        self.frame = frame
        self.headers = marked(headers, {}, source)
        self.headers.sqn = frame.sqn
        self.packets, self.octets = stands_for(frame, headers)


def each_of(packet: Packet, headers: Marked, budget: Budget) -> Iterator[tuple[Packet, Marked]]:
    """The packets that one stands for, with all their checksums.

    Raises FrameError for a super-frame that cannot be cut.
    """
    budget.charge(packet.packets >> LOG_CUT_PER_STEP)
    now = packet.frame
    for data in plain(Frame(headers.frame, now.gso_size, now.checked, now.filled)):
        one = Packet(Frame(data), headers.source)
        one.headers.belong_with(headers)
        one.headers.registers = headers.registers
        yield one, one.headers


def decision_on(
    domain: FlowDomain,
    packet: Packet,
    headers: Marked,
    budget: Budget,
    root: FlowTable | None = None,
    clock: Clock | None = None,
) -> Decision:
    """Return the decision of a domain, and charge its cost.

    ``root`` and ``clock`` are those of ``domain.decide``.
    """
    before = domain.steps
    decision = decide(domain, headers, packet.octets, packet.packets, root, clock)
    budget.charge(domain.steps - before)
    return decision


def through(domain: FlowDomain, packet: Packet, headers: Marked, budget: Budget) -> Marked | None:
    """The packet behind tables that let pass what misses; None when it is dropped there."""
    if domain.root is None:
        return headers
    decision = decision_on(domain, packet, headers, budget)
    if decision.allowed:
        return after(headers, decision.allowed_rewrites, budget)
    return headers if decision.missed else None


def after(headers: Marked, steps: Steps | None, budget: Budget) -> Marked:
    """The packet after these steps, if any. Raises FrameError when one is impossible with it."""
    if steps is None:
        return headers
    copied = steps.reshapes * len(headers.frame) >> LOG_BYTES_PER_STEP
    budget.charge(STEPS_PER_REWRITE + (len(steps.changes) >> LOG_CHANGES_PER_STEP) + copied)
    return rewrite(headers, steps)

"""The NIC_TX tables, which packets pass before they leave the function.

Packets that match no entry leave unchanged; without a root all do. Only packets of Ethernet send
queues pass: RoCE has tables of its own (RDMA_TX).

Sources: PRM "Flow steering"; core/fs_core.c: egress_root_fs; ib/fs.c: IB_FLOW_ATTR_FLAGS_EGRESS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from emu.device.engine.eth.steering.packet_context import (
    PacketContext,
    after,
    apart,
    decision_on,
    each_of,
    stands_for,
)
from emu.device.port.eth.frame import MAX_BYTES, Frame
from emu.device.port.eth.headers import REG_A, FrameError, Marked, source_of
from emu.device.port.eth.vlan import pad
from emu.device.rounds.costs import STEPS_PER_DECISION
from emu.device.rounds.portions import Portions

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


class Leaving(NamedTuple):
    """A frame that leaves the function."""

    frame: Frame
    packets: int
    longest: int
    """Bytes of the longest packet for which it stands."""
    octets: int
    """Bytes of all these packets."""


def steered(
    hca: Hca, leaving: Leaving, leave: Callable[[Leaving], object], metadata: int = 0
) -> Portions[None]:
    """Pass a frame of a send queue (``Frame.sqn``) through the NIC_TX tables.

    ``leave`` is called with each resulting frame: none if an entry drops it, several if a change
    segments a super-frame. Register A is ``metadata``. Charges the budget, and yields while it is
    used up.

    Meters and samplers see each packet of a super-frame separately, at the time when it passes.
    Packets that no entry drops, but that cannot leave, count as discards: those of a frame with
    malformed headers, one above MAX_BYTES, one beyond the limits of meters, and from an impossible
    change on the rest of a super-frame.
    """
    domain, budget, dropped = hca.nic_tx, hca.budget, leaving.packets
    clock = None if leaving.packets > 1 else hca.clock
    try:
        source = source_of(hca.vhca.vport_number, hca.adapter.manager.number)
        packet = PacketContext(leaving.frame, source)
        if metadata:
            packet.headers.registers = {REG_A: metadata}
        decision = decision_on(domain, packet, packet.headers, budget, None, clock)
        is_apart = decision.asks is not None
        whole = packet, packet.headers
        for part, before in apart(*whole, budget) if is_apart else (whole,):
            if is_apart:
                while budget.steps > budget.limit:
                    yield
                budget.charge(STEPS_PER_DECISION)
                decision = decision_on(domain, part, before, budget, None, hca.clock)
                if decision.asks is not None:
                    continue
            steps = decision.allowed_rewrites
            if steps is None:
                if decision.allowed or decision.missed:
                    leave(_leaving(part.frame, before.frame) if is_apart else leaving)
                dropped -= part.packets
                continue
            segments: Iterable[tuple[PacketContext, Marked]] = ((part, before),)
            if steps.needs_whole:
                segments = each_of(part, before, budget)
            for one, now in segments:
                while budget.steps > budget.limit:
                    yield
                data = after(now, steps, budget).frame
                if len(data) <= MAX_BYTES:
                    leave(_leaving(one.frame, data))
                    dropped -= one.packets
    except FrameError:
        pass
    hca.nic_vport.sent.discards += dropped


def _leaving(frame: Frame, data: bytes) -> Leaving:
    """Return a frame with changed data.

    Raises FrameError for a super-frame without complete headers.
    """
    made = Frame(pad(data), frame.gso_size, frame.checked, frame.filled)
    packets, octets = stands_for(made)
    if packets == 1:
        return Leaving(made, 1, octets, octets)
    headers = (octets - len(made.data)) // (packets - 1)
    return Leaving(made, packets, headers + made.gso_size, octets)

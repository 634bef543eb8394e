"""How many frames a function has receive requests for: what pause frames tell a real link partner.

mlx5e turns pause frames on, so a real port does not overrun a driver that is behind for a moment. A
link whose peer can wait asks this and lets it wait (IEEE 802.3 31B).

Send queues wait as well while the port at the other end of the cable asks for that, if their
function obeys pause frames, and look again by a timer. What a function may send until it asks the
next time is counted down, so that hardly any frame costs a look at the other end's queues. Who
waits for whom is up to the wire (``emu.device.port.eth.wire.EthWire.spare_to``), and so is how long
a port may ask for that.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from emu.device.port.eth.traffic import MAC_BYTES
from emu.device.ports import DmaError
from emu.device.rounds.costs import LOG_ROOMS_PER_STEP
from layouts.enums import PortType
from layouts.eth_enums import RqState

if TYPE_CHECKING:
    from emu.device.objects.eth.sq import AnySq
    from emu.device.state.hca import Hca

MANY: Final = 1 << 16
"""More than any queue has."""
MIN_SIZE: Final = 64
"""Requests of the smallest queue that is waited for: a network interface's has more."""
MAX_QUEUES_EXAMINED: Final = 512
"""Queues that are looked at, as links ask in each round."""
POLL_NS: Final = 200_000
"""When a queue that waits looks again. A pause frame is for a third of a millisecond at most at
100 Gb/s."""
MAX_UNCONFIRMED_PACKETS: Final = 256
"""Packets that are sent before the other end is asked again, whatever its room."""
_GROUP_BIT: Final = 1


def rx_credits(hca: Hca) -> int:
    """How many frames the emptiest receive queue in use has requests for; MANY without any."""
    return emptiest(hca)[0]


def emptiest(hca: Hca) -> tuple[int, int]:
    """As :func:`rx_credits`, and how many short packets that queue has room for at most.

    There is no room while frames wait that have come already. Charges what it costs to look.
    """
    if hca.rx_backlog:
        return 0, MANY
    least, size, looked_at = MANY, MANY, 0
    for rq in islice(hca.rqs, MAX_QUEUES_EXAMINED):
        queue = rq.queue
        if rq.state is RqState.RDY and queue.is_used and rq.size_frames >= MIN_SIZE:
            looked_at += 1
            try:
                frames = rq.frames(hca.nic_vport.oper_mtu)
            except DmaError:
                continue  # the next frame breaks the queue
            if frames < least:
                least, size = frames, rq.size_frames
    hca.budget.charge(looked_at >> LOG_ROOMS_PER_STEP)
    return least, size


def charge(hca: Hca, data: bytes, packets: int) -> None:
    """Count a frame that leaves by the cable, and remember where it goes.

    A frame to another address than the last one makes the next request ask.
    """
    partner = hca.link_partner
    partner.credit -= packets
    if packets > partner.largest:
        partner.largest = packets
    if not data[0] & _GROUP_BIT and data[:MAC_BYTES] != partner.address:
        partner.address = data[:MAC_BYTES]
        partner.credit = 0


def must_wait(hca: Hca, sq: AnySq) -> bool:
    """Whether the other end asks the queue to wait; if not, how much may be sent is known anew."""
    if hca.model.port_type is not PortType.ETH:
        hca.link_partner.credit = MANY
        return False
    partner, flow = hca.link_partner, hca.eth.flow
    room = MANY
    if partner.address:
        priority = sq.tis.prio >> 1 if sq.tis is not None else 0
        room = hca.segment.spare_to(partner.address, partner.largest, flow, priority)
    now = hca.clock.now_ns()
    if not room:
        if not partner.since_ns:
            partner.since_ns = now
            flow.pause_received()
        return True
    if partner.since_ns:
        flow.resume_received(now - partner.since_ns)
        partner.since_ns = 0
    partner.credit = min(max(room - partner.largest, 0) + 1, MAX_UNCONFIRMED_PACKETS)
    return False

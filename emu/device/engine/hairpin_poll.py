"""A turn of a hairpin send queue: what waits in the receive queue of the pair leaves.

They wait for the queue's rate, and while the port at the other end of the cable asks for that
(``eth.room``); what the receive queue has no room for meanwhile is lost and counted there.

A packet that comes back to the receive queue waits in it again, so a loop of hairpins takes turns
as other queues do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth.hairpins.peers import packets_for
from emu.device.engine.eth.pacing import wait
from emu.device.engine.eth.rx_credits import POLL_NS, must_wait
from emu.device.engine.eth.transmit import send
from emu.device.objects.eth.hairpin_sq import HairpinSq
from emu.device.port.eth.frame import Frame
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.sizes import FRAMES_PER_POLL
from emu.device.state.polls import polls
from layouts.eth_enums import SqState

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


@polls(HairpinSq)
def poll(hca: Hca, sq: HairpinSq) -> bool:
    """Send some of the packets that wait; True when there are more."""
    hairpin = packets_for(hca, sq) if sq.state is SqState.RDY else None
    if hairpin is None:
        return False
    if hca.egress:  # what was sent before is still on its way
        return True
    for _ in range(FRAMES_PER_POLL):
        pacing = sq.pacing
        if not hairpin:
            if pacing is not None:
                pacing.rest()
            return False
        if pacing is not None and (delay := pacing.delay(hca.clock.now_ns())):
            wait(hca, sq, delay)
            return False
        if hca.link_partner.credit <= 0 and must_wait(hca, sq):
            wait(hca, sq, POLL_NS)
            return False
        data, gso_size, is_vouched, packets, longest, octets, metadata = hairpin.pop()
        frame = Frame(data, gso_size, is_vouched, is_vouched and not gso_size)
        send(hca, sq, frame, packets, longest, octets, metadata)
        if hca.budget.steps > POLL_BUDGET:
            break
    return True

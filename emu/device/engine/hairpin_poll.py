"""Polls a hairpin send queue: forwards packets from the pair's receive queue.

Packets wait for the queue's rate, and while the link partner has no receive credits
(``eth.rx_credits``). Meanwhile the receive queue counts and drops packets beyond its capacity.

A packet that loops back to the receive queue is queued there again. A loop of hairpins therefore
shares rounds with the other queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth.hairpins.peers import packets_for
from emu.device.engine.eth.pacing import wait
from emu.device.engine.eth.rx_credits import POLL_NS, await_credits
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
    """Send some of the pair's queued packets; return whether more can be sent in a later round.

    Return False when the backlog is empty, or unless both queues of the pair are in RDY. Return
    False while the rate or missing receive credits delay the queue; a timer then schedules it
    again. Return True at once while ``hca.egress`` holds earlier frames.
    """
    hairpin = packets_for(hca, sq) if sq.state is SqState.RDY else None
    if hairpin is None:
        return False
    if hca.egress:  # earlier frames are still being sent
        return True
    for _ in range(FRAMES_PER_POLL):
        pacing = sq.pacing
        if not hairpin:
            if pacing is not None:
                pacing.stop_waiting()
            return False
        if pacing is not None and (delay := pacing.delay(hca.clock.now_ns())):
            wait(hca, sq, delay)
            return False
        if hca.link_partner.credit <= 0 and await_credits(hca, sq):
            wait(hca, sq, POLL_NS)
            return False
        data, gso_size, is_vouched, packets, longest, octets, metadata = hairpin.pop()
        frame = Frame(data, gso_size, is_vouched, is_vouched and not gso_size)
        send(hca, sq, frame, packets, longest, octets, metadata)
        if hca.budget.steps > POLL_BUDGET:
            break
    return True

"""A packet at a hairpin receive queue waits for the send queue of the pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth.hairpins.peers import sender_for
from emu.device.objects.eth.hairpin import Hairpin, Waiting
from emu.device.objects.eth.rq import Rq
from emu.device.port.eth.frame import MIN_BYTES
from layouts.eth_enums import RqState

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


def pass_one(
    hca: Hca, rq: Rq, hairpin: Hairpin, data: bytes, *, is_vouched: bool, metadata: int
) -> None:
    """Send a packet on; ``is_vouched``: its checksums are right. ``metadata`` is its register B."""
    if len(data) < MIN_BYTES:
        data = data.ljust(MIN_BYTES, b"\0")
    octets = len(data)
    pass_on(hca, rq, hairpin, Waiting(data, 0, is_vouched, 1, octets, octets, metadata))


def pass_on(hca: Hca, rq: Rq, hairpin: Hairpin, one: Waiting) -> None:
    """Let a frame wait for the send queue, or count that there is no room for it.

    Without a send queue that takes them nothing leaves, and the next ones find no room.
    """
    if rq.state is not RqState.RDY:
        return
    if not hairpin.put(one):
        rq.count("out_of_buffer", one.packets)
    found = sender_for(hca, rq, hairpin)
    if found is not None:
        node, sq = found
        node.schedule(sq)

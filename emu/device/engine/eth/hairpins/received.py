"""Packets of a hairpin receive queue: wait for the send queue of the pair."""

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
    """Queue a packet for the send queue of the pair.

    ``is_vouched``: its checksums are known to be right. ``metadata`` is its register B.
    """
    if len(data) < MIN_BYTES:
        data = data.ljust(MIN_BYTES, b"\0")
    octets = len(data)
    pass_on(hca, rq, hairpin, Waiting(data, 0, is_vouched, 1, octets, octets, metadata))


def pass_on(hca: Hca, rq: Rq, hairpin: Hairpin, one: Waiting) -> None:
    """Queue a frame for the send queue of the pair, or count out_of_buffer if the backlog is full.

    Without a paired send queue the backlog fills up and later frames are counted.
    """
    if rq.state is not RqState.RDY:
        return
    if not hairpin.put(one):
        rq.count("out_of_buffer", one.packets)
    found = sender_for(hca, rq, hairpin)
    if found is not None:
        node, sq = found
        node.schedule(sq)

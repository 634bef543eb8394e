"""Packets of a hairpin receive queue: wait for the send queue of the pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth.hairpin.pairs import sender_for
from emu.device.objects.eth.hairpin import Hairpin, Waiting
from emu.device.objects.eth.rq import Rq
from emu.device.port.eth.frame import MIN_BYTES
from layouts.enums.wq import RqState

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.state.hca import Hca


def pass_one(
    vhca: Vhca[Hca], rq: Rq, hairpin: Hairpin, data: bytes, *, is_vouched: bool, metadata: int
) -> None:
    """Queue a packet for the send queue of the pair, padded to the minimum length.

    ``is_vouched``: its checksums are known to be right. ``metadata`` is its register B. A drop is
    that of :func:`pass_on`.
    """
    if len(data) < MIN_BYTES:
        data = data.ljust(MIN_BYTES, b"\0")
    octets = len(data)
    pass_on(vhca, rq, hairpin, Waiting(data, 0, is_vouched, 1, octets, octets, metadata))


def pass_on(vhca: Vhca[Hca], rq: Rq, hairpin: Hairpin, one: Waiting) -> None:
    """Queue a frame for the send queue of the pair, and schedule that queue.

    A full backlog drops the frame and counts its packets as out_of_buffer. Without a paired send
    queue the backlog fills up. A receive queue outside RDY drops the frame uncounted.
    """
    if rq.state is not RqState.RDY:
        return
    if not hairpin.put(one):
        rq.count("out_of_buffer", one.packets)
    found = sender_for(vhca, rq, hairpin)
    if found is not None:
        node, sq = found
        node.scheduler.schedule(sq)

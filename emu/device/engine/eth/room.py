"""How many frames a function has receive requests for: what pause frames tell a real link partner.

mlx5e turns pause frames on, so a real port does not overrun a driver that is behind for a moment. A
link whose peer can wait asks this and lets it wait (IEEE 802.3 31B).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from emu.device.ports import DmaError
from layouts.eth_enums import RqState

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

MANY: Final = 1 << 16
"""More than any queue has."""
LEAST_SIZE: Final = 64
"""Requests of the smallest queue that is waited for: a network interface's has more."""
MOST_LOOKED_AT: Final = 512
"""Queues that are looked at, as links ask in each round."""


def room(hca: Hca) -> int:
    """How many frames the emptiest receive queue in use has requests for; MANY without any."""
    least = MANY
    for rq in islice(hca.rqs, MOST_LOOKED_AT):
        queue = rq.queue
        if rq.state is RqState.RDY and queue.is_used and rq.size_frames >= LEAST_SIZE:
            try:
                least = min(least, rq.frames(hca.nic_vport.oper_mtu))
            except DmaError:
                continue  # the next frame breaks the queue
    return least

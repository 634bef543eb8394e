"""What a requester asks of a responder, whole: the unit that both sides and the direct path share.

A message is the sum of its packets (IBTA 9.4): loopback and functions of one process hand it over
as it is, a wire cuts it into packets and the other end puts them together again. Either way the
responder takes it through the same steps.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from emu.objects.views import Views

if TYPE_CHECKING:
    from emu.objects.receive_queue import Arrival
    from emu.objects.send_queue import Wqe


class MsgOp(IntEnum):
    """What is asked."""

    SEND = 0
    WRITE = 1
    READ = 2
    COMPARE_SWAP = 3
    FETCH_ADD = 4


ANSWERED = frozenset({MsgOp.READ, MsgOp.COMPARE_SWAP, MsgOp.FETCH_ADD})
"""Requests whose responses carry data."""


class Message:
    """One request of a connected transport.

    ``data`` is what goes to the responder (SEND, WRITE); a READ and an atomic bring ``reply``, the
    requester's views that wait for the answer.
    """

    # Most of these stay as they are in most messages: defaults of the class cost nothing.
    reply: Views = ()
    data_at = 0
    """Where the data segments begin in the WQE that the message was read from."""
    va = 0
    rkey = 0
    immediate: int | None = None
    """Immediate data, in a SEND or a WRITE that carries it."""
    inv_rkey: int | None = None
    """The key to invalidate, in a SEND with invalidate."""
    solicited = False
    srqn = 0
    """Number of the shared receive queue, on XRC."""
    most = 0
    """Bytes that may move in one go, of a message that is too much for one (see ``shares``)."""
    done = 0
    """How many have moved, of such a message."""
    wqe: Wqe | None = None
    """The request that it was read from."""
    arrival: Arrival | None = None
    """What its responder has granted it."""
    swap_add = compare = 0
    swap_add_mask = compare_mask = (1 << 64) - 1

    def __init__(self, op: MsgOp, length: int, data: Views = ()) -> None:
        self.op = op
        self.length = length
        self.data = data

"""A whole request from a requester to a responder: what both sides and the direct path exchange.

A message is the sum of its packets (IBTA 9.4). Loopback and functions of the same process pass it
on as one object; a wire cuts it into packets and the other end reassembles them. The responder
processes it in the same steps either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.objects.memory.views import Views

if TYPE_CHECKING:
    from emu.device.objects.queues.outcome import LocalAccessFailed
    from emu.device.objects.queues.receive_queue import Segment
    from emu.device.objects.queues.receive_request import ReceiveRequest
    from emu.device.objects.queues.send_queue import Wqe


class MsgOp(IntEnum):
    """The operation requested."""

    SEND = 0
    WRITE = 1
    READ = 2
    COMPARE_SWAP = 3
    FETCH_ADD = 4
    MASKED_COMPARE_SWAP = 5
    MASKED_FETCH_ADD = 6


COMPARE_SWAPS: Final = frozenset({MsgOp.COMPARE_SWAP, MsgOp.MASKED_COMPARE_SWAP})
MASKED_ATOMICS: Final = frozenset({MsgOp.MASKED_COMPARE_SWAP, MsgOp.MASKED_FETCH_ADD})
ATOMICS: Final = frozenset({MsgOp.COMPARE_SWAP, MsgOp.FETCH_ADD}) | MASKED_ATOMICS
WITH_RESPONSE_DATA: Final = ATOMICS | {MsgOp.READ}
"""Requests whose responses carry data."""

MASKED_ATOMIC_SIZES: Final = frozenset({4, 8})
"""Bytes that the operand of a masked atomic may have, as atomic_size_qp and atomic_size_dc say."""


class Message:
    """One request of a connected transport.

    ``data`` is the payload for the responder (SEND, WRITE). For a READ or an atomic, ``reply``
    holds the requester's views that the response is written to.
    """

    # Most messages leave most of these at their defaults, which cost nothing as class attributes.
    reply: Views = ()
    misplaced: LocalAccessFailed | None = None
    """What becomes of a READ or an atomic that names no memory for its answer, once it has come."""
    segments: Sequence[Segment] = ()
    """The data segments of the WQE that the message was read from."""
    va = 0
    rkey = 0
    immediate: int | None = None
    """Immediate data, in a SEND or a WRITE that carries it."""
    inv_rkey: int | None = None
    """The key to invalidate, in a SEND with invalidate."""
    solicited = False
    srqn = 0
    """Number of the shared receive queue, for XRC."""
    address = 0
    """The address of the target's port, for DC (``emu.device.port.base.Link``)."""
    dctn = 0
    """Number of the target, for DC."""
    route: tuple[bytes, bytes] | None = None
    """Source and destination GID of the global route header, for DC; None without one."""
    access_key = 0
    """The key that the target has to have, for DC."""
    limit = 0
    """Bytes to move in one turn, for a message that is too long for one turn (see ``shares``)."""
    done = 0
    """Bytes moved so far, for such a message."""
    counted = 0
    """Bytes of the packets that need not be sent again after an RNR NAK; they have been counted."""
    wqe: Wqe | None = None
    """The work request that it was read from."""
    begun: object | None = None
    """What the responder that has begun it knows it by; for such a message."""
    receive: ReceiveRequest | None = None
    """The receive WQE that it has taken at the responder, None before."""
    head: memoryview | bytes = b""
    """The first bytes of a SEND to a queue that matches tags, if ``data`` are not all of it."""
    has_more_packets = False
    """Its first packet was not its only one."""
    scattered: bytes | None = None
    """Its data, if the responder puts them into the completion instead of the receive WQE's memory.

    As many bytes as the completion has room for.
    """
    target: Views = ()
    """The responder's views of all of a WRITE's range, if they were mapped at once."""
    swap_add = 0
    compare = 0
    """Of an atomic; in a FETCH_ADD, the top bits of fields that are added separately."""
    swap_add_mask = 0xFFFF_FFFF_FFFF_FFFF
    compare_mask = 0xFFFF_FFFF_FFFF_FFFF
    old_value: Struct = Struct(">Q")
    """How the requester gets the value that an atomic found."""

    def __init__(self, op: MsgOp, length: int, data: Views = ()) -> None:
        self.op = op
        self.length = length
        self.data = data

    @property
    def has_wqe(self) -> bool:
        """Whether it holds a receive WQE; not any more once that is completed or destroyed."""
        return self.receive is not None and self.receive.wqe is not None

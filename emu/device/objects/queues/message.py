"""A whole request from a requester to a responder, used by packets and by the direct path.

A message is the sum of its packets (IBTA 9.4). Loopback and functions of the same process forward
the message as one object. A wire cuts the message into packets, and the other end reassembles them.
The responder processes the message in the same steps either way.
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
    """The requested operation."""

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
"""Operand sizes of masked atomics in bytes, as in atomic_size_qp and atomic_size_dc."""


class Message:
    """A request of a connected transport.

    ``data`` is the payload for the responder (SEND, WRITE). For a READ or an atomic, ``reply``
    holds the requester's views that the response is written to. Each maker of a message sets
    ``op``.
    """

    # Most messages keep most of these defaults, which take no memory as class attributes. Makers of
    # the most frequent messages set what is read for each of them: CPython finds a class's
    # attribute ten times slower than an object's.
    op: MsgOp
    length = 0
    data: Views = ()
    reply: Views = ()
    reply_error: LocalAccessFailed | None = None
    """The failure to report after the response to a READ or atomic without a valid local buffer."""
    segments: Sequence[Segment] = ()
    """The data segments of the WQE from which the message was read."""
    va = 0
    rkey = 0
    immediate: int | None = None
    """Immediate data of a SEND or WRITE; None without."""
    inv_rkey: int | None = None
    """The key to invalidate, in a SEND with invalidate."""
    solicited = False
    srqn = 0
    """Number of the shared receive queue, for XRC."""
    address = 0
    """For DC: the address of the target's port (``emu.device.port.link.Link``)."""
    dctn = 0
    """For DC: number of the target."""
    route: tuple[bytes, bytes] | None = None
    """For DC: source and destination GID of the global route header; None without one."""
    access_key = 0
    """For DC: the access key that the target must have."""
    limit = 0
    """Bytes per step, for a message too long for one step (``emu.device.engine.rc.segments``)."""
    done = 0
    """Bytes moved so far, for a message in several steps."""
    counted = 0
    """Bytes of packets already counted, which are not sent again after an RNR NAK."""
    wqe: Wqe | None = None
    """The WQE from which the message was read."""
    begun: object | None = None
    """Token of the responder that has started the message, for a message in several steps."""
    receive: ReceiveRequest | None = None
    """The receive WQE taken at the responder; None before."""
    head: memoryview | bytes = b""
    """First bytes of a SEND to a tag-matching queue, if ``data`` is not the whole message."""
    has_more_packets = False
    """Whether more packets followed the first one."""
    scattered: bytes | None = None
    """Data that the responder writes to the CQE instead of the receive WQE's memory.

    Zero-padded to the space in the CQE (``Qp.cs_res`` bytes).
    """
    target: Views = ()
    """The responder's views of a WRITE's whole range, if they were mapped at once."""
    swap_add = 0
    compare = 0
    """Operands of an atomic; in a FETCH_ADD, the top bits of separately added fields."""
    swap_add_mask = 0xFFFF_FFFF_FFFF_FFFF
    compare_mask = 0xFFFF_FFFF_FFFF_FFFF
    old_value: Struct = Struct(">Q")
    """Format in which the requester gets the original value of an atomic."""

    @property
    def has_wqe(self) -> bool:
        """Whether the message holds a receive WQE that is neither completed nor destroyed."""
        return self.receive is not None and self.receive.wqe is not None

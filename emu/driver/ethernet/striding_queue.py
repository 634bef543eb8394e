"""Striding receive queues, used as by mlx5e: linked WQEs over one key, strides in CQEs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.verbs.node import Node
from layouts.enums.cqe import CqeOpcode
from layouts.enums.wq import RqState, WqType
from layouts.rings.cqe import cqe64
from layouts.rings.wqe import DATA, NEXT

FILLER = 1 << 31
LOG_COUNT_BASE, LOG_SIZE_BASE = 9, 6
SHIFT_BYTES = 2


@dataclass(frozen=True)
class Piece:
    """Content of a completion: the WQE, its strides, and the packet if there is one."""

    wqe_id: int
    first: int
    strides: int
    is_filler: bool
    data: bytes
    entry: cqe64


class StridingQueue(ReceiveQueue):
    """Queue of WQEs with memory of ``count`` strides each, at the front of one key."""

    def __init__(
        self, node: Node, *, log_size: int = 3, log_count: int = 3, log_stride_size: int = 6,
        is_cyclic: bool = False, headroom: int = 0, is_shifted: bool = False,
        more: Mapping[str, object] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Create a queue whose WQEs have ``1 << log_count`` strides of ``1 << log_stride_size``
        bytes.

        The WQEs' memory starts ``headroom`` bytes into the region. If ``is_shifted``, a packet
        starts two bytes into its first stride. ``more`` are other fields of the wq; for the rest
        see :class:`ReceiveQueue`.
        """
        wq = {
            "wq_type": WqType.CYCLIC_STRIDING_RQ if is_cyclic else WqType.LINKED_LIST_STRIDING_RQ,
            "log_wqe_num_of_strides": log_count - LOG_COUNT_BASE & 0xF,
            "log_wqe_stride_size": log_stride_size - LOG_SIZE_BASE,
            "two_byte_shift_en": int(is_shifted),
        } | dict(more or {})
        self.count, self.stride_bytes = 1 << log_count, 1 << log_stride_size
        self.headroom, self.shift = headroom, SHIFT_BYTES if is_shifted else 0
        self.request_bytes = self.count * self.stride_bytes
        super().__init__(node, log_size=log_size, log_stride=5, wq=wq, **options)
        self.region = node.region(self.request_bytes * self.size + headroom, va=0x100000)
        self.consumed = [0] * self.size
        self.tail = 0
        for index in range(self.size):
            self._write(index, (index + 1) % self.size)

    def _write(self, index: int, following: int) -> None:
        """Write the WQE at ``index`` (core/en_main.c: mlx5e_alloc_rq); ``following`` is its next.

        WQEs are written only once, at creation.
        """
        at = self.region.va + index * self.request_bytes + self.headroom
        segment = DATA.pack(self.request_bytes, self.region.key, at)
        self.ring.write(index * self.stride, NEXT.pack(following) + segment)

    def post_more(self, count: int = 1) -> None:
        """Post the next WQEs; ring and links are unchanged."""
        self.posted += count
        self.write_record()

    def modify(
        self, state: RqState, ctx: Mapping[str, object] | None = None, **fields: object
    ) -> None:
        """Move the queue to a state; back in RST the first WQE is next.

        Consumed strides are then forgotten. Raises DriverCommandError if refused.
        """
        super().modify(state, ctx, **fields)
        if state is RqState.RST and hasattr(self, "consumed"):
            self.consumed = [0] * self.size

    def drain(self) -> list[Piece]:
        """Return the received segments, and check the sums that the driver relies on.

        A WQE is free when all its strides are consumed: it may be posted again.

        Raises AssertionError if strides do not follow each other within the WQE. A filler has no
        bytes, an error no strides. No WQE is posted again.
        """
        completions = []
        while (raw := self.cq.peek()) is not None:
            self.cq.poll()
            entry = cqe64.view(raw)
            if entry.op_own >> 4 == CqeOpcode.RESP_SEND:
                completions.append(self._piece(entry))
            else:
                completions.append(Piece(entry.wqe_id, 0, entry.byte_cnt >> 16, False, b"", entry))
        return completions

    def _piece(self, entry: cqe64) -> Piece:
        """Return the packet of a completion, and record its strides as consumed.

        Raises AssertionError if the strides do not follow those before, or exceed the WQE.
        """
        strides, length = entry.byte_cnt >> 16 & 0x7FFF, entry.byte_cnt & 0xFFFF
        index, first = entry.wqe_id % self.size, entry.wqe_counter
        assert strides > 0
        assert first == self.consumed[index]
        assert first + strides <= self.count
        self.consumed[index] = (first + strides) % self.count
        at = index * self.request_bytes + first * self.stride_bytes + self.headroom + self.shift
        is_filler = bool(entry.byte_cnt & FILLER)
        data = b"" if is_filler else self.region.read(at, length)
        return Piece(entry.wqe_id, first, strides, is_filler, data, entry)

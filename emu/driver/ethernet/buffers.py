"""Receive buffers: posted WQEs and received packets."""

from __future__ import annotations

from collections.abc import Iterator

from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.verbs.region import Region
from layouts.enums.cqe import CqeOpcode
from layouts.rings.cqe import cqe64


class Buffers:
    """Receive buffers of an RQ: posted WQEs, and the packets of its completions."""

    def __init__(self, rq: ReceiveQueue, *sizes: int, count: int = 8) -> None:
        """Post ``count`` WQEs, each with separate fragments of ``sizes``."""
        self.rq, self.sizes = rq, sizes or (2048,)
        self.slot = sum(self.sizes) + 64 * len(self.sizes)
        self.region = Region(rq.node, self.slot * rq.size, va=0x40000)
        for _ in range(count):
            self.post()

    def _places(self, index: int) -> Iterator[tuple[int, int]]:
        """Yield offset in the region and size of each fragment of the WQE with this index."""
        at = index % self.rq.size * self.slot
        for size in self.sizes:
            yield at, size
            at += size + 64

    def post(self) -> None:
        """Post one more WQE, over the slot of its index; an older packet there is overwritten."""
        sges = [(size, self.region.key, self.region.va + at) for at, size in
                self._places(self.rq.posted)]  # fmt: skip
        self.rq.post(*sges)

    def drain(self) -> list[tuple[cqe64, bytes]]:
        """Return (the completion's fields, the packet's bytes) of all completions.

        Errors have no bytes. The list is empty without completions. No WQE is posted again.
        """
        completions = []
        while (raw := self.rq.cq.peek()) is not None:
            self.rq.cq.poll()
            entry = cqe64.view(raw)
            data = b""
            if entry.op_own >> 4 == CqeOpcode.RESP_SEND:
                places = self._places(entry.wqe_counter)
                data = b"".join(self.region.read(at, size) for at, size in places)
                data = data[: entry.byte_cnt]
            completions.append((entry, data))
        return completions

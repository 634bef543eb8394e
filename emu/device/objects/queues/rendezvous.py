"""What an adapter sends itself for a queue pair: the READ of a rendezvous, the word of its end.

Such a request stands in no ring. All else about it is as about a request of the driver's: it waits
its turn, is sent again, and has the queue pair fail with it.

Source: rdma-core, Documentation/tag_matching.md.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from emu.device.objects.queues.send_queue import Wqe

if TYPE_CHECKING:
    from emu.device.objects.queues.tag_list import Arrival


class Rendezvous:
    """A message whose data the adapter fetches from its sender."""

    __slots__ = ("arrival", "length", "slid", "solicited")

    def __init__(self, arrival: Arrival, length: int, slid: int, solicited: bool) -> None:
        self.arrival = arrival
        self.length = length
        self.slid = slid
        self.solicited = solicited


class AdapterWqe(Wqe):
    """A request of the adapter's own: it takes no room in the ring and asks for no completion."""

    __slots__ = ("rendezvous",)

    def __init__(self, buf: bytes, rendezvous: Rendezvous | None = None) -> None:
        super().__init__(buf)
        self.blocks = 0
        self.rendezvous = rendezvous
        """That whose data it fetches; None for the word of its end."""


class AdapterRequests:
    """Those of one queue pair."""

    __slots__ = ("is_ring_first", "running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[AdapterWqe] = deque()
        """Requests that have not been sent yet; or the first of them is the current one."""
        self.running: list[Rendezvous] = []
        """Messages whose data have not come yet."""
        self.is_ring_first = False
        """A request of the ring has begun and has to be tried again before anything else."""

    def next(self) -> AdapterWqe | None:
        """The request to send before those of the ring; None when there is none."""
        return self.waiting[0] if self.waiting and not self.is_ring_first else None

    def done(self, wqe: Wqe) -> None:
        """A request is done, or other hands have it now."""
        if self.waiting and self.waiting[0] is wqe:
            self.waiting.popleft()

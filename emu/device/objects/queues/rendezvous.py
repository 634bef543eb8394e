"""Requests that the adapter itself sends for a queue pair: rendezvous READs and FINs.

The request is not in a ring. Otherwise the device treats it like a request of the driver: it is
scheduled, retransmitted, and its failure fails the queue pair.

Source: rdma-core, Documentation/tag_matching.md.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from emu.device.objects.queues.send_queue import Wqe

if TYPE_CHECKING:
    from emu.device.objects.queues.tag_list import TagMatch


class Rendezvous:
    """A message whose data the adapter reads from the sender."""

    __slots__ = ("arrival", "length", "slid", "solicited")

    def __init__(self, arrival: TagMatch, length: int, slid: int, solicited: bool) -> None:
        self.arrival = arrival
        self.length = length
        self.slid = slid
        self.solicited = solicited


class AdapterWqe(Wqe):
    """A WQE of the adapter itself, without ring space and without completion."""

    __slots__ = ("rendezvous",)

    def __init__(self, buf: bytes, rendezvous: Rendezvous | None = None) -> None:
        self.parse(buf)
        self.blocks = 0
        self.rendezvous = rendezvous
        """The rendezvous whose data this WQE reads; None for the FIN."""


class AdapterRequests:
    """The adapter's own requests of one queue pair."""

    __slots__ = ("is_ring_first", "running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[AdapterWqe] = deque()
        """Unsent requests; the first one may be the current one."""
        self.running: list[Rendezvous] = []
        """Messages whose data has not arrived yet."""
        self.is_ring_first = False
        """Whether a WQE of the ring has started and must be retried first."""

    def next(self) -> AdapterWqe | None:
        """Return the first request, which precedes those of the ring; None without any.

        None also while a started WQE of the ring must be retried first. The request stays queued.
        """
        return self.waiting[0] if self.waiting and not self.is_ring_first else None

    def done(self, wqe: Wqe) -> None:
        """Remove the first request if it is ``wqe``, which is complete or handed over.

        Else do nothing.
        """
        if self.waiting and self.waiting[0] is wqe:
            self.waiting.popleft()

"""A receive request between its queue and its completion.

A shared queue refers weakly to those that are under way, which no class that mypyc compiles allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.device.objects.queues.cq import Cq
    from emu.device.objects.queues.receive_queue import RecvWqe
    from emu.device.objects.queues.tag_list import Arrival


class ReceiveRequest:
    """A receive WQE that a message has taken from its queue, and where its completion goes."""

    __slots__ = ("__weakref__", "arrival", "cq", "srqn", "wqe")

    def __init__(self, wqe: RecvWqe, cq: Cq, srqn: int, arrival: Arrival | None = None) -> None:
        self.wqe: RecvWqe | None = wqe
        """None once it is completed, or its queue destroyed."""
        self.cq = cq
        self.srqn = srqn
        """The shared queue's number; 0 for the queue pair's own receive queue."""
        self.arrival = arrival
        """What a queue that matches tags has made of the message; None for any other queue."""

    def forget(self) -> None:
        """The responder stops: a sender in another function may still know this, and nothing else.

        The CQ may be destroyed next, and its memory is the driver's then.
        """
        self.wqe = None
        del self.cq

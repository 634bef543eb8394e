"""A receive WQE between its queue and its completion.

A shared queue holds weak references to those in flight, which classes compiled by mypyc do not
allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.device.objects.queues.cq import Cq
    from emu.device.objects.queues.receive_queue import RecvWqe
    from emu.device.objects.queues.tag_list import TagMatch


class ReceiveRequest:
    """A receive WQE that a message has taken from its queue, and its CQ."""

    __slots__ = ("__weakref__", "arrival", "cq", "srqn", "wqe")

    wqe: RecvWqe | None
    """None after completion or destruction of the queue."""
    cq: Cq
    srqn: int
    """Number of the shared queue; 0 for the queue pair's own receive queue."""
    arrival: TagMatch | None
    """Match result of a tag-matching queue; None for any other queue."""

    def forget(self) -> None:
        """Drop the WQE and the CQ, as the responder stops: no CQE is written.

        A sender in another function may still hold this object. The driver may destroy the CQ next
        and reuse its memory.
        """
        self.wqe = None
        del self.cq


def receive_request(
    wqe: RecvWqe, cq: Cq, srqn: int, arrival: TagMatch | None = None
) -> ReceiveRequest:
    """Return a request, of which each SEND makes one (see ``receive_queue.recv_wqe``)."""
    request = ReceiveRequest()
    request.wqe, request.cq, request.srqn, request.arrival = wqe, cq, srqn, arrival
    return request

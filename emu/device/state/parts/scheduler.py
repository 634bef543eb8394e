"""The scheduler of a function: which of its queues have work, and whether the function runs.

``emu.device.engine.lifecycle.run`` polls the queues. ``emu.device.rounds.budget`` limits a round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.queue import Queue


class Scheduler:
    """The queues of one function that wait for a poll, and the CQs that the next poll visits."""

    __slots__ = (
        "broken_cqs", "has_broken_cqs", "holding", "is_awake", "on_work", "ready", "stopping",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ready: deque[Queue] = deque()
        """Queues that wait for a poll (``emu.device.engine.lifecycle.run``)."""
        self.is_awake = True
        """Whether the function is scheduled to run."""
        self.on_work: Callable[[], None] = lambda: None
        """Called when :meth:`wake` schedules the function."""
        self.holding: list[Cq] = []
        """CQs that hold packets until :meth:`Budget.release` of the round."""
        self.broken_cqs: list[Cq] = []
        """CQs that have just failed, whose queues must be stopped."""
        self.has_broken_cqs = False
        """Whether queues of such CQs are still to be stopped."""
        self.stopping: Iterator[bool] | None = None
        """Iterates over the queues to be stopped for such CQs; yields whether each has been
        stopped.
        """

    def schedule(self, queue: Queue) -> None:
        """Append the queue to the ready list and wake the function.

        No effect if it is listed already.
        """
        if not queue.is_ready:
            queue.is_ready = True
            self.ready.append(queue)
            if not self.is_awake:
                self.is_awake = True
                self.on_work()

    def wake(self) -> None:
        """Schedule the function to run by calling ``on_work``; no effect while it is scheduled."""
        if not self.is_awake:
            self.is_awake = True
            self.on_work()

    def add_broken(self, cq: Cq) -> None:
        """Have the next polls stop the queues of a CQ that has failed."""
        self.broken_cqs.append(cq)
        self.has_broken_cqs = True

    def clear(self) -> None:
        """Forget all ready queues, broken CQs and held packets; the function stays scheduled."""
        for cq in self.holding:
            cq.waiting.clear()
        self.holding.clear()
        self.ready.clear()
        self.broken_cqs.clear()
        self.has_broken_cqs = False
        self.stopping = None

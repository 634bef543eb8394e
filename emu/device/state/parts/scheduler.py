"""The scheduler of a function: which of its queues have work, their polls, and whether it runs.

``emu.device.rounds.budget`` limits a round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.queue import Queue
from emu.device.rounds.budget import POLL_BUDGET, Budget
from emu.device.rounds.sizes import QUEUES_PER_ROUND

HcaT = TypeVar("HcaT")


class Scheduler:
    """The queues of one function that wait for a poll, and the CQs that the next poll visits."""

    __slots__ = (
        "broken_cqs", "has_broken_cqs", "is_awake", "on_work", "ready", "stopping",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ready: deque[Queue] = deque()
        """Queues that wait for :meth:`poll`."""
        self.is_awake = True
        """Whether the function is scheduled to run."""
        self.on_work: Callable[[], None] = lambda: None
        """Called when :meth:`wake` schedules the function."""
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
                call = self.on_work
                call()

    def poll(
        self, hca: HcaT, budget: Budget, polls: Mapping[type[Queue], Callable[[HcaT, Any], bool]]
    ) -> bool:
        """Poll up to QUEUES_PER_ROUND ready queues; return whether any is left, or a CQ has failed.

        ``polls`` has the poll function of each class of queue, which gets ``hca``. No queue is
        polled once the budget is used up. A queue whose poll returns True goes back to the end of
        the ready list. A poll's exception propagates to the caller.
        """
        ready = self.ready
        budget.is_gathering = True
        try:
            left = len(ready)
            if left > QUEUES_PER_ROUND:
                left = QUEUES_PER_ROUND
            while left and budget.steps <= POLL_BUDGET:
                left -= 1
                queue = ready.popleft()
                queue.is_ready = False
                if polls[type(queue)](hca, queue):
                    self.schedule(queue)
        finally:
            budget.is_gathering = False
            if budget.end_calls:
                budget.release()
        if ready:
            return True
        return self.has_broken_cqs

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
        """Forget all ready queues and broken CQs; the function stays scheduled."""
        self.ready.clear()
        self.broken_cqs.clear()
        self.has_broken_cqs = False
        self.stopping = None

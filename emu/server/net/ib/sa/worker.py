"""The administrator's work, cut into steps with a budget in each round of the loop.

A job is an iterator. Each step yields its cost; building or examining a record costs 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from emu.device.ports import Clock
from emu.device.rounds.budget import SEGMENT_BUDGET
from emu.device.rounds.costs import STEPS_PER_RECORD

Job = Iterator[int]


class Worker:
    """Executes jobs in the order of their arrival."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: deque[Job] = deque()
        self._left = 0
        """Remaining budget in the round of this number."""
        self._budget = -1
        self._is_running = False
        self._is_waiting = False
        """Whether a timer for the next round is set."""

    def __len__(self) -> int:
        return len(self._jobs)

    def begin(self, job: Job) -> None:
        """Run a job's steps within the round's budget, behind earlier jobs, and the rest later.

        A job's exception removes the job and passes through, here or in a later round's timer.
        """
        self._jobs.append(job)
        if not self._is_running:
            self._run()

    def _run(self) -> None:
        """Run steps until the jobs, their budget, or the round's budget are used up.

        The rest is scheduled for the next round, also after an exception.
        """
        budget = self._clock.budget
        if self._budget != budget.number:
            self._budget, self._left = budget.number, SEGMENT_BUDGET
        self._is_running = True
        try:
            while self._jobs and self._left > 0 and not budget.exhausted(budget.limit):
                steps = self._step() * STEPS_PER_RECORD
                budget.charge(steps)
                self._left -= steps
        finally:
            self._is_running = False
            if self._jobs and not self._is_waiting:
                self._is_waiting = True
                self._clock.call_later(0, self._next_round)

    def _step(self) -> int:
        """Run one step of the first job and return its cost, 0 at its end.

        A job that ends or raises is removed; the exception passes through.
        """
        job = self._jobs[0]
        try:
            cost = next(job)
        except StopIteration:
            cost = 0
        except BaseException:
            self._jobs.popleft()
            raise
        if not cost:
            self._jobs.popleft()
        return cost

    def _next_round(self) -> None:
        self._is_waiting = False
        self._run()

"""The administrator's work, cut into steps: a bounded number in each round of the loop.

A job is an iterator. Each of its steps yields its cost; looking at one record costs 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from emu.device.ports import Clock

STEPS_PER_ROUND = 256
"""A step takes up to 80 us."""

Job = Iterator[int]


class Worker:
    """Does jobs in the order in which they come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: deque[Job] = deque()
        self._left = STEPS_PER_ROUND
        self._is_running = False

    def __len__(self) -> int:
        return len(self._jobs)

    def begin(self, job: Job) -> None:
        """Start a job: do as much as possible at once, and the rest in later rounds."""
        self._jobs.append(job)
        if not self._is_running and self._left > 0:
            self._run()

    def _run(self) -> None:
        self._is_running = True
        try:
            while self._jobs and self._left > 0:
                self._left -= self._step()
        finally:
            self._is_running = False
            if self._jobs or self._left <= 0:
                self._left = 0
                self._clock.call_later(0, self._next_round)

    def _step(self) -> int:
        """Do one step of the first job and return its cost; remove a job that ends or fails."""
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
        self._left = STEPS_PER_ROUND
        self._run()

"""The budget of one round of the event loop, shared by everything that runs in it.

All users of a clock share its budget: the functions of a process, their links, segments and
uplinks, captures, the subnet manager and the control socket. Like a NAPI poll, a user checks
:meth:`Budget.exhausted` before a poll, a timer's call, a client's request or a step of a long
command. Each user charges the cost of its work. The hot path compares ``Budget.steps`` with a level
itself: in CPython 3.11 a call costs three comparisons.

Work that exceeds the budget waits: in its queue, in the receiver's
:class:`~emu.device.rounds.backlog.Backlog`, or in its generator (``portions.py``). Costs are in
``costs.py``, limits of one poll in ``sizes.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

POLL_BUDGET = 4096
"""Steps after which no queue is polled in this round: some 10 ms, at about 2.5 us for a step."""

TIMER_BUDGET: Final = POLL_BUDGET // 2
"""Steps after which timers and responders leave the rest of the round to the queues."""

CLIENT_BUDGET: Final = POLL_BUDGET + TIMER_BUDGET
"""Steps after which no connection is served: a full poll budget and a full timer budget."""

SEGMENT_BUDGET: Final = POLL_BUDGET // 4
"""Steps of one segment of long work: of a command, a message, page prefetch or subnet manager.

Three other users still get a segment each in the same round."""

STEPS_PER_ACCESS: Final = 4096 + 64
"""Maximum cost in steps of one memory access of a message: a packet of single bytes.

An access that costs more is split, or fails."""

RX_BUDGET: Final = POLL_BUDGET + STEPS_PER_ACCESS + 64
"""Steps after which packets from sockets wait in their receiver's backlog, or are dropped.

Only packets that the requester requests again (READ responses) are dropped. Polls of queues stop
earlier, after one access too many at most, so they never starve received packets."""

STEPS_AHEAD: Final = 128
"""Maximum cost in steps of memory that is mapped for several packets.

More scattered memory is mapped packet by packet."""


class RoundWaiter(Protocol):
    """A user that has work left for the next rounds."""

    def go_on(self) -> None:
        """Continue the work until done or until the budget is exhausted."""


class Budget:
    """Counts the work of the current round and calls the users that wait for the next one."""

    __slots__ = (
        "_after_polls", "_cycle", "_is_owed", "_later", "end_calls", "is_gathering", "is_waiting",
        "limit", "number", "steps",
    )  # fmt: skip

    def __init__(self) -> None:
        self.steps = 0
        """Steps charged in this round."""
        self.limit = POLL_BUDGET
        """Level above which received packets wait in a backlog."""
        self.number = 0
        """Number of rounds so far."""
        self.is_waiting = False
        """Whether a user waits for the next round."""
        self._cycle: deque[RoundWaiter] = deque()
        """Waiters that continue before the queues are polled."""
        self._later: deque[RoundWaiter] = deque()
        """Waiters that continue after these polls."""
        self.is_gathering = False
        """Whether writes are collected, to be written together by :meth:`release`.

        Set by code that calls :meth:`release` afterwards. No client and no command is served in
        between.
        """
        self.end_calls: list[Callable[[], None]] = []
        """Calls that :meth:`release` makes."""
        self._after_polls: list[Callable[[], None]] = []
        self._is_owed = False
        """Whether the last waiters used up a round: the next one belongs to the queues."""

    def charge(self, steps: int) -> None:
        """Charge the cost of work that is done or about to be done (``costs.py``)."""
        self.steps += steps

    def exhausted(self, level: int) -> bool:
        """Return whether this round has used more than ``level`` steps.

        ``level`` is TIMER_BUDGET, POLL_BUDGET, CLIENT_BUDGET, RX_BUDGET, or ``limit`` for received
        packets.
        """
        return self.steps > level

    def segment_end(self) -> int:
        """Return the value of ``steps`` at which a segment of work that begins now has to stop."""
        return min(self.steps + SEGMENT_BUDGET, POLL_BUDGET)

    def begin(self) -> None:
        """Begin a round: reset ``steps`` and ``limit``, and call the waiters of earlier rounds.

        Each waiter continues for one round at most, then all queues are polled, then the next
        waiters continue. No user waits longer than one round of every other user. After waiters
        have used up a whole round, the next round calls none.
        """
        self.number += 1
        self.steps = 0
        self.limit = POLL_BUDGET
        if self.is_waiting:
            self.is_gathering = True
            try:
                self._go_on()
            finally:
                self.release()

    def at_end(self, call: Callable[[], None]) -> None:
        """Have :meth:`release` make a call that does not raise. Valid while gathering only."""
        self.end_calls.append(call)

    def release(self) -> None:
        """End gathering and make the calls of :meth:`at_end`, in order, once each."""
        self.is_gathering = False
        if self.end_calls:
            calls, self.end_calls = self.end_calls, []
            for call in calls:
                call()

    def after_polls(self, call: Callable[[], None]) -> None:
        """Register a call, which must not raise, for :meth:`end_polls`; do not make it now.

        Everything that the polled functions sent is written then, before the loop waits.
        """
        self._after_polls.append(call)

    def end_polls(self) -> None:
        """Make the calls that :meth:`after_polls` has registered, once each."""
        if self._after_polls:
            calls, self._after_polls = self._after_polls, []
            for call in calls:
                call()

    def _go_on(self) -> None:
        """Call waiters until the budget is exhausted; none if the last ones used up a round."""
        if self._is_owed:
            self._is_owed = False
            return
        if not self._cycle:
            self._cycle, self._later = self._later, self._cycle
        while self._cycle and not self.exhausted(POLL_BUDGET):
            self._cycle.popleft().go_on()
        self.is_waiting = bool(self._cycle or self._later)
        self._is_owed = self.is_waiting and self.exhausted(POLL_BUDGET) and not self._cycle

    def listen(self) -> None:
        """Raise ``limit`` to RX_BUDGET: queues have been polled, sockets are read next."""
        self.limit = RX_BUDGET

    def wait(self, waiter: RoundWaiter) -> None:
        """Let ``waiter`` continue in one of the next rounds."""
        self._later.append(waiter)
        self.is_waiting = True

    def forget(self, waiter: RoundWaiter) -> None:
        """Remove a waiter that has no more work; do nothing if it does not wait."""
        for waiters in (self._cycle, self._later):
            if waiter in waiters:
                waiters.remove(waiter)
        self.is_waiting = bool(self._cycle or self._later)

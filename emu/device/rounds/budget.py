"""The budget of a round of the loop: one for everything that is done in it.

All that share a clock share its round: the functions of a process, their links, segments and
uplinks, captures, the subnet's administrator and the control socket. A turn is what one of them
does before the next one may: a queue, a connection, a timer's call, a client's request, a long
command, the line of a receiver. Whoever gives a turn asks the round whether there is room for one,
whoever does the work charges it for that, and nobody else changes ``Round.steps``. What each
message or packet passes compares it with the levels below by itself: a question costs CPython 3.11
as much as three of them.

What a turn may not do any more waits: in its queue, in the :class:`~emu.device.rounds.line.Line` of
its receiver, or in the generator that does it (``portions.py``). Costs are in
``costs.py``, the sizes of turns and portions in ``sizes.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

STEPS_PER_ROUND = 4096
"""From here on no turn begins: some 10 ms, at about 2.5 us for a step."""

ENOUGH_STEPS: Final = STEPS_PER_ROUND // 2
"""From here on timers and responders leave the rest of the round to the queues' own turns."""

MAX_STEPS_SERVED: Final = STEPS_PER_ROUND + ENOUGH_STEPS
"""From here on no connection is served: what queues leave by their turns, and as much again as
timers may take."""

MAX_STEPS_RECEIVED: Final = 2 * STEPS_PER_ROUND + 64
"""From here on what sockets bring waits in its receiver's line, or is dropped where nobody waits
for it: READ data, which are asked for again. The queues' own turns end before, so they never keep
out what arrives."""

STEPS_PER_SHARE: Final = STEPS_PER_ROUND // 4
"""What a turn may take of which many would like a whole round: a portion of a long command or of a
long message, the pages that a message looks ahead for, the subnet's administrator. Three others
still get theirs in the same round."""

STEPS_PER_ACCESS: Final = 4096 + 64
"""What one access of a message to memory may take, if it is to more than a few bytes: a packet of
single bytes. What takes more is moved in pieces, or fails."""


class RoundWaiter(Protocol):
    """Somebody with work for the next rounds."""

    def go_on(self) -> None:
        """Do some of the work, up to a round."""


class Round:
    """The round that is under way."""

    __slots__ = (
        "_after_turns", "_at_end", "_cycle", "_is_owed", "_later", "is_gathering", "is_waiting",
        "limit", "number", "steps",
    )  # fmt: skip

    def __init__(self) -> None:
        self.steps = 0
        """Work done in this round, as far as it is counted."""
        self.limit = STEPS_PER_ROUND
        """Above this what arrives waits."""
        self.number = 0
        """Rounds so far."""
        self.is_waiting = False
        """Whether something waits for the next rounds."""
        self._cycle: deque[RoundWaiter] = deque()
        """Lines that get a share before the queues' turns."""
        self._later: deque[RoundWaiter] = deque()
        """Lines that get theirs after these turns."""
        self.is_gathering = False
        """What comes now may be written together with what comes soon after it."""
        self._at_end: list[Callable[[], None]] = []
        """What is to be done when that ends."""
        self._after_turns: list[Callable[[], None]] = []
        self._is_owed = False
        """The last lines of a cycle have taken their whole round: this one is the queues'."""

    def charge(self, steps: int) -> None:
        """Something has been done, or is about to be: what it costs (``costs.py``)."""
        self.steps += steps

    @property
    def has_enough(self) -> bool:
        """Whether timers and responders should leave the rest to the queues' own turns."""
        return self.steps > ENOUGH_STEPS

    @property
    def is_over(self) -> bool:
        """Whether it has done enough: no queue gets a turn any more."""
        return self.steps > STEPS_PER_ROUND

    @property
    def has_served(self) -> bool:
        """Whether the connections have had theirs: none is served any more."""
        return self.steps > MAX_STEPS_SERVED

    @property
    def is_full(self) -> bool:
        """Whether what arrives now has to wait."""
        return self.steps > self.limit

    @property
    def is_closed(self) -> bool:
        """Whether what may be asked for again is not even taken in."""
        return self.steps > MAX_STEPS_RECEIVED

    def share(self) -> int:
        """The value of ``steps`` at which a turn is over that begins now and takes a share."""
        return min(self.steps + STEPS_PER_SHARE, STEPS_PER_ROUND)

    def begin(self) -> None:
        """A new round: some of the lines go on.

        Each line gets a share, of a round at most, then all queues get their turns, then the lines
        again: neither side waits longer than for one share of everybody else.
        """
        self.number += 1
        self.steps = 0
        self.limit = STEPS_PER_ROUND
        if self.is_waiting:
            self.gather()
            try:
                self._go_on()
            finally:
                self.release()

    def gather(self) -> None:
        """Begin a share of work after which what it has gathered is written, by :meth:`release`.

        No client is served in between, and no command.
        """
        self.is_gathering = True

    def at_end(self, call: Callable[[], None]) -> None:
        """Make a call, which does not raise, when the gathering ends. Only while there is one."""
        self._at_end.append(call)

    def release(self) -> None:
        """The share is over."""
        self.is_gathering = False
        if self._at_end:
            calls, self._at_end = self._at_end, []
            for call in calls:
                call()

    def after_turns(self, call: Callable[[], None]) -> None:
        """Make a call, which does not raise, when all functions have had their turns.

        What they have sent until then can be written at once, before the loop waits.
        """
        self._after_turns.append(call)

    def end_turns(self) -> None:
        """The functions have had their turns."""
        if self._after_turns:
            calls, self._after_turns = self._after_turns, []
            for call in calls:
                call()

    def _go_on(self) -> None:
        if self._is_owed:
            self._is_owed = False
            return
        if not self._cycle:
            self._cycle, self._later = self._later, self._cycle
        while self._cycle and not self.is_over:
            self._cycle.popleft().go_on()
        self.is_waiting = bool(self._cycle or self._later)
        self._is_owed = self.is_waiting and self.is_over and not self._cycle

    def listen(self) -> None:
        """The turns are over, now sockets are read: there is room left for what they bring."""
        self.limit = MAX_STEPS_RECEIVED

    def wait(self, line: RoundWaiter) -> None:
        """A line has work for the next rounds."""
        self._later.append(line)
        self.is_waiting = True

    def forget(self, line: RoundWaiter) -> None:
        """A line has no more work."""
        for lines in (self._cycle, self._later):
            if line in lines:
                lines.remove(line)
        self.is_waiting = bool(self._cycle or self._later)

"""What one round of the loop may cost, over everything that is done in it.

All that share a clock share its round: the functions of a process, their links, segments and
uplinks. Whoever does something counts it in ``Round.steps``. What comes when the round has done
enough waits in the :class:`Line` of its receiver and goes on in the next rounds, in order: nothing
that waits there is overtaken by what comes after it. What has no more room there is lost, and its
receiver counts it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from emu.device.turns import Turns

STEPS_PER_ROUND = 4096
"""The work of one round of the loop: pieces and pages found by keys, some 10 ms."""

ENOUGH_STEPS = STEPS_PER_ROUND // 2
"""From here on timers and responders leave the rest of the round to the queues' own turns."""

MOST_STEPS_RECEIVED = 2 * STEPS_PER_ROUND + 64
"""From here on what sockets bring waits in its receiver's line, or is dropped where nobody waits
for it: READ data, which are asked for again. The queues' own turns end before, so they never keep
out what arrives."""

MOST_WAITING = 1024
"""Frames, packets or datagrams in one line."""
MOST_WAITING_BYTES = 16 << 20
"""Their bytes."""

_ITEM_BYTES = 300
"""What the host needs for something that waits, besides its bytes."""

Contain = Callable[[Callable[[], object]], None]
"""Makes a call, and deals with its exceptions."""


def _nobody(_: int) -> None:
    """Charge nobody."""


class Round:
    """The round that is under way."""

    __slots__ = ("_cycle", "_is_owed", "_later", "is_waiting", "most", "number", "steps")

    def __init__(self) -> None:
        self.steps = 0
        """Work done in this round, as far as it is counted."""
        self.most = STEPS_PER_ROUND
        """Above this what arrives waits."""
        self.number = 0
        """Rounds so far."""
        self.is_waiting = False
        """Whether something waits for the next rounds."""
        self._cycle: deque[Line] = deque()
        """Lines that get a share before the queues' turns."""
        self._later: deque[Line] = deque()
        """Lines that get theirs after these turns."""
        self._is_owed = False
        """The last lines of a cycle have taken their whole round: this one is the queues'."""

    @property
    def is_over(self) -> bool:
        """Whether it has done enough: no queue gets a turn any more."""
        return self.steps > STEPS_PER_ROUND

    def begin(self) -> None:
        """A new round: some of the lines go on.

        Each line gets a share, of a round at most, then all queues get their turns, then the lines
        again: neither side waits longer than for one share of everybody else.
        """
        self.number += 1
        self.steps = 0
        self.most = STEPS_PER_ROUND
        if self.is_waiting:
            self._go_on()

    def _go_on(self) -> None:
        if self._is_owed:
            self._is_owed = False
            return
        if not self._cycle:
            self._cycle, self._later = self._later, self._cycle
        while self._cycle and not self.is_over:
            self._cycle.popleft().share()
        self.is_waiting = bool(self._cycle or self._later)
        self._is_owed = self.is_waiting and self.is_over and not self._cycle

    def listen(self) -> None:
        """The turns are over, now sockets are read: there is room left for what they bring."""
        self.most = MOST_STEPS_RECEIVED

    def wait(self, line: Line) -> None:
        """A line has work for the next rounds."""
        self._later.append(line)
        self.is_waiting = True

    def forget(self, line: Line) -> None:
        """A line has no more work."""
        for lines in (self._cycle, self._later):
            if line in lines:
                lines.remove(line)
        self.is_waiting = bool(self._cycle or self._later)


class Line:
    """What waits at one receiver."""

    __slots__ = ("_contain", "_hold", "_is_waiting", "_octets", "_round", "_work")

    def __init__(
        self, round_: Round, contain: Contain, hold: Callable[[int], object] = _nobody
    ) -> None:
        """``contain`` makes the calls in later rounds, when no caller is there to do so.

        ``hold`` is told how many bytes are kept, or given back when the number is negative.
        """
        self._round = round_
        self._contain = contain
        self._hold = hold
        self._work: deque[tuple[int, Any, tuple[Any, ...] | None]] = deque()
        """Bytes, a call and its arguments; or a generator, without."""
        self._octets = 0
        self._is_waiting = False
        """It is in one of the round's lists."""

    def __len__(self) -> int:
        return len(self._work)

    @property
    def octets(self) -> int:
        """Bytes of all that waits."""
        return self._octets

    @property
    def is_free(self) -> bool:
        """Whether something that comes now may be done at once."""
        return not self._work and self._round.steps <= self._round.most

    def do(self, octets: int, call: Callable[..., object], *arguments: object) -> bool:
        """Call it now, or later if it must not be done now; False when it is lost."""
        if not self._work and self._round.steps <= self._round.most:
            call(*arguments)
            return True
        return self.keep(octets, call, *arguments)

    def keep(self, octets: int, call: Callable[..., object], *arguments: object) -> bool:
        """Call it in one of the next rounds; False when there is no room to keep it.

        The arguments, with so many bytes, have to last until then.
        """
        if len(self._work) >= MOST_WAITING or self._octets + octets > MOST_WAITING_BYTES:
            return False
        self._work.append((octets, call, arguments))
        self._charge(octets)
        self._wait()
        return True

    def begin(self, work: Turns[None], octets: int = 0) -> None:
        """Do a turn of some work now, and the others in the next rounds, before what waits.

        It yields when ``Round.steps`` is above ``Round.most``.
        """
        try:
            next(work)
        except StopIteration:
            return
        self._work.appendleft((octets, work, None))
        self._charge(octets)
        self._wait()

    def share(self) -> None:
        """Do some of the work, up to a round."""
        work, round_ = self._work, self._round
        self._is_waiting = False
        while work and round_.steps <= STEPS_PER_ROUND:
            octets, call, arguments = work.popleft()
            self._octets -= octets
            self._hold(-octets - _ITEM_BYTES)
            round_.steps += 1
            if arguments is None:
                self._contain(partial(self.begin, call, octets))
            else:
                self._contain(partial(call, *arguments))
        if work:
            self._wait()

    def _charge(self, octets: int) -> None:
        self._octets += octets
        self._hold(octets + _ITEM_BYTES)

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._round.wait(self)

    def clear(self) -> None:
        """Nothing that waits is wanted any more."""
        while self._work:
            octets, call, arguments = self._work.popleft()
            self._octets -= octets
            self._hold(-octets - _ITEM_BYTES)
            if arguments is None:
                call.close()
        if self._is_waiting:
            self._is_waiting = False
            self._round.forget(self)

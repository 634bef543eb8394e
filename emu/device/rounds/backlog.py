"""What waits at a receiver because the round has done enough.

It goes on in the next rounds, in order: nothing that waits there is overtaken by what comes after
it. What has no more room there is lost, and its receiver counts it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from emu.device.rounds.budget import POLL_BUDGET, Budget
from emu.device.rounds.costs import STEPS_PER_WAIT
from emu.device.rounds.portions import Portions, goes_on

MAX_WAITING: Final = 1024
"""Frames, packets or datagrams in one line."""
MAX_WAITING_BYTES: Final = 16 << 20
"""Their bytes."""

_ITEM_BYTES: Final = 300
"""What the host needs for something that waits, besides its bytes."""

Contain = Callable[[Callable[[], object]], None]
"""Makes a call, and deals with its exceptions."""


def _nobody(_: int) -> None:
    """Charge nobody."""


class Backlog:
    """What waits at one receiver."""

    __slots__ = ("_budget", "_contain", "_hold", "_is_waiting", "_octets", "_work")

    def __init__(
        self, budget: Budget, contain: Contain, hold: Callable[[int], object] = _nobody
    ) -> None:
        """``contain`` makes the calls in later rounds, when no caller is there to do so.

        ``hold`` is told how many bytes are kept, or given back when the number is negative.
        """
        self._budget = budget
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
        return not self._work and not self._budget.exhausted(self._budget.limit)

    def do(self, octets: int, call: Callable[..., object], *arguments: object) -> bool:
        """Call it now, or later if it must not be done now; False when it is lost."""
        if not self._work and not self._budget.exhausted(self._budget.limit):
            call(*arguments)
            return True
        return self.keep(octets, call, *arguments)

    def keep(self, octets: int, call: Callable[..., object], *arguments: object) -> bool:
        """Call it in one of the next rounds; False when there is no room to keep it.

        The arguments, with so many bytes, have to last until then.
        """
        if len(self._work) >= MAX_WAITING or self._octets + octets > MAX_WAITING_BYTES:
            return False
        self._work.append((octets, call, arguments))
        self._charge(octets)
        self._wait()
        return True

    def begin(self, work: Portions[None], octets: int = 0) -> None:
        """Do a portion of some work now, and the others in the next rounds, before what waits.

        It yields when ``Budget.is_full``.
        """
        if not goes_on(work):
            return
        self._work.appendleft((octets, work, None))
        self._charge(octets)
        self._wait()

    def go_on(self) -> None:
        """Do some of the work, up to a round."""
        work, budget = self._work, self._budget
        self._is_waiting = False
        while work and not budget.exhausted(POLL_BUDGET):
            octets, call, arguments = work.popleft()
            self._octets -= octets
            self._hold(-octets - _ITEM_BYTES)
            budget.charge(STEPS_PER_WAIT)
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
            self._budget.wait(self)

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
            self._budget.forget(self)

"""Work that a receiver defers because the round's budget is used up.

The work continues in later rounds, in order: later work never overtakes it. Work beyond the
backlog's capacity is dropped, and its receiver counts it.
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
"""Maximum number of frames, packets or datagrams in one backlog."""
MAX_WAITING_BYTES: Final = 16 << 20
"""Maximum number of their bytes."""

_ITEM_BYTES: Final = 300
"""Host memory for one deferred item, in bytes, in addition to its own bytes."""

Contain = Callable[[Callable[[], object]], None]
"""Makes a call, and handles its exceptions."""


def _charge_none(_: int) -> None:
    """Charge no account."""


class Backlog:
    """The deferred work of one receiver."""

    __slots__ = ("_budget", "_contain", "_hold", "_is_waiting", "_octets", "_work")

    def __init__(
        self, budget: Budget, contain: Contain, hold: Callable[[int], object] = _charge_none
    ) -> None:
        """Create an empty backlog; ``contain`` makes the deferred calls, in rounds without a
        caller.

        ``hold`` is called with the number of stored bytes, negative when they are removed.
        """
        self._budget = budget
        self._contain = contain
        self._hold = hold
        self._work: deque[tuple[int, Any, tuple[Any, ...] | None]] = deque()
        """Bytes, a call and its arguments; or a generator, without arguments."""
        self._octets = 0
        self._is_waiting = False
        """Whether the backlog is in one of the budget's lists."""

    def __len__(self) -> int:
        return len(self._work)

    @property
    def octets(self) -> int:
        """Bytes of all deferred work."""
        return self._octets

    @property
    def is_free(self) -> bool:
        """Whether work that arrives now may be done at once."""
        budget = self._budget
        return not self._work and budget.steps <= budget.limit

    def do(self, octets: int, call: Callable[..., object], *arguments: object) -> bool:
        """Make a call now, or defer it; return False when a full backlog drops it.

        Calls at once only with an empty backlog and budget left. The call's exceptions propagate
        then; a deferred call's exceptions go to ``contain``.
        """
        budget = self._budget
        if not self._work and budget.steps <= budget.limit:
            call(*arguments)
            return True
        return self.keep(octets, call, *arguments)

    def keep(self, octets: int, call: Callable[..., object], *arguments: object) -> bool:
        """Make a call in one of the next rounds; return False and drop it when the backlog is full.

        Full means MAX_WAITING calls or MAX_WAITING_BYTES. The arguments, of ``octets`` bytes, have
        to stay valid until then.
        """
        if len(self._work) >= MAX_WAITING or self._octets + octets > MAX_WAITING_BYTES:
            return False
        self._work.append((octets, call, arguments))
        self._charge(octets)
        self._wait()
        return True

    def begin(self, work: Portions[None], octets: int = 0) -> None:
        """Run one step of ``work`` now, and the rest in the next rounds, ahead of the backlog.

        ``work`` yields when the budget is exhausted. The rest is kept even if the backlog is full.
        Exceptions of the first step propagate.
        """
        if not goes_on(work):
            return
        self._work.appendleft((octets, work, None))
        self._charge(octets)
        self._wait()

    def go_on(self) -> None:
        """Process the backlog until it is empty or the budget is exhausted; the rest waits."""
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
        """Drop all deferred work, close its generators, and stop waiting for a round."""
        while self._work:
            octets, call, arguments = self._work.popleft()
            self._octets -= octets
            self._hold(-octets - _ITEM_BYTES)
            if arguments is None:
                call.close()
        if self._is_waiting:
            self._is_waiting = False
            self._budget.forget(self)

"""The sub-functions (SF) of an adapter, as its manager knows them: how far each of them has come.

Each number can be asked for and watched, whether there is such a function or not. What a
sub-function consists of is up to ``emu.device.function.sub_functions``.

Source: PRM "Sub-Function (SF)", "vHCA state"; core/sf/vhca_event.c, core/sf/hw_table.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from layouts.eth_enums import VhcaState

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_THERE: Final = (VhcaState.ACTIVE, VhcaState.IN_USE, VhcaState.TEARDOWN_REQUEST)


class SubFunction:
    """One number, and the function that has it."""

    __slots__ = ("armed", "node", "number", "reported", "state", "sw_function_id")

    def __init__(self, number: int) -> None:
        self.number = number
        """The function_id, which is also the vPort's number."""
        self.node: Hca | None = None
        """The function; None in state INVALID alone."""
        self.state = VhcaState.INVALID
        self.sw_function_id = 0
        """What the manager's driver calls it."""
        self.armed = False
        """The next change of the state is told to the manager."""
        self.reported = VhcaState.INVALID
        """The state that the manager has seen last."""

    @property
    def is_there(self) -> bool:
        """Whether its driver can begin or go on: writes into its part of BAR 2 do something."""
        return self.state in _THERE


class SubFunctions:
    """All of an adapter's, from the number ``first`` on."""

    def __init__(
        self, first: int, limit: int, start: Callable[[int], Hca], stop: Callable[[Hca], None]
    ) -> None:
        """``start`` makes the function of a number, ``stop`` ends it at once."""
        self.all = [SubFunction(number) for number in range(first, first + limit)]
        self._first = first
        self._start = start
        self._stop = stop

    def find(self, number: int) -> SubFunction | None:
        """The one of a number, if it is a sub-function's."""
        at = number - self._first
        return self.all[at] if 0 <= at < len(self.all) else None

    def start(self, one: SubFunction) -> None:
        """Make its function."""
        one.node = self._start(one.number)
        one.node.sub_function = one

    def stop(self, one: SubFunction) -> None:
        """End its function, whatever it does."""
        node, one.node = one.node, None
        if node is not None:
            self._stop(node)

    def stop_all(self) -> None:
        """Their manager goes: all of them end, and nobody is told."""
        for one in self.all:
            self.stop(one)
            one.state = one.reported = VhcaState.INVALID
            one.armed, one.sw_function_id = False, 0

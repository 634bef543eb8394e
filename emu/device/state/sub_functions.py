"""The sub-functions (SF) of an adapter: the manager's record of the state of each number.

Each number can be queried and armed, with or without a function.
``emu.device.function.sub_functions`` implements the functions.

Source: PRM "Sub-Function (SF)", "vHCA state"; core/sf/vhca_event.c, core/sf/hw_table.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic

from emu.device.ports import NodeT
from layouts.enums.hca import VhcaState

_THERE: Final = (VhcaState.ACTIVE, VhcaState.IN_USE, VhcaState.TEARDOWN_REQUEST)


class SubFunction(Generic[NodeT]):
    """One number, and the function that has it."""

    __slots__ = ("armed", "node", "number", "reported", "state", "sw_function_id")

    def __init__(self, number: int) -> None:
        self.number = number
        """The function_id, which is also the vPort's number."""
        self.node: NodeT | None = None
        """The function; None only in state INVALID."""
        self.state = VhcaState.INVALID
        self.sw_function_id = 0
        """Number that the manager's driver has assigned."""
        self.armed = False
        """Whether the next change of the state raises an event at the manager."""
        self.reported = VhcaState.INVALID
        """The last state reported to the manager."""

    @property
    def is_there(self) -> bool:
        """Whether its driver can start or continue: ACTIVE, IN_USE or TEARDOWN_REQUEST.

        Only then do writes into its slot of BAR 2 have an effect.
        """
        return self.state in _THERE


class SubFunctions(Generic[NodeT]):
    """All sub-functions of an adapter, from the number ``first`` on."""

    def __init__(
        self,
        first: int,
        limit: int,
        start: Callable[[SubFunction[NodeT]], NodeT],
        stop: Callable[[NodeT], None],
    ) -> None:
        """Create ``limit`` records; ``start`` creates a record's function, ``stop`` ends it.

        The function that ``start`` returns refers to the record.
        """
        self.all: list[SubFunction[NodeT]] = [
            SubFunction(number) for number in range(first, first + limit)
        ]
        self._first = first
        self._start = start
        self._stop = stop

    def find(self, number: int) -> SubFunction[NodeT] | None:
        """Return the record of a number, or None if the number is not a sub-function's."""
        at = number - self._first
        return self.all[at] if 0 <= at < len(self.all) else None

    def start(self, one: SubFunction[NodeT]) -> None:
        """Create the function of the record's number; the record's state is not changed."""
        one.node = self._start(one)

    def stop(self, one: SubFunction[NodeT]) -> None:
        """End the record's function, in any state; no effect without one.

        The state is not changed.
        """
        node, one.node = one.node, None
        if node is not None:
            self._stop(node)

    def stop_all(self) -> None:
        """End all sub-functions without events, because their manager stops.

        All records return to INVALID, unarmed, without sw_function_id.
        """
        for one in self.all:
            self.stop(one)
            one.state = one.reported = VhcaState.INVALID
            one.armed, one.sw_function_id = False, 0

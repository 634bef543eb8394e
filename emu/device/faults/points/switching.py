"""The fault points of an embedded switch: its tables, and the states of its sub-functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine import vhca_state
from emu.device.engine.esw.switch import FDB_POINT
from emu.device.engine.vhca_state import VHCA_STATE_POINT
from emu.device.faults.delivery_actions import Delayable, Losable
from emu.device.faults.event import Event, EventField, RuleInjector
from emu.device.faults.registry import action, point
from emu.device.faults.rule import Rule
from emu.device.port.eth.frame import Frame
from emu.device.state.sub_functions import SubFunction
from layouts.enums.hca import VhcaState

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


@point(
    FDB_POINT, "a packet is about to enter the tables of the switch",
    EventField("vport", int, is_recorded=True), EventField("length", int, is_recorded=True),
)  # fmt: skip
class SwitchedPacketEvent(Event[bool]):
    """A packet of the vPort ``vport``, 65535 for the uplink; its result is whether it passes the
    tables.
    """

    __slots__ = ("length", "vport")

    def __init__(self, faults: RuleInjector, source_port: int, frame: Frame) -> None:
        super().__init__(faults)
        self.vport, self.length = source_port, len(frame.data)

    def go_on(self) -> bool:
        """Let the packet pass the tables."""
        return True

    @action("no entry matches the packet, and the switch drops the packet")
    def miss(self, _rule: Rule) -> bool:
        """Drop the packet before any table, without a count."""
        return False


@point(
    VHCA_STATE_POINT, "a sub-function is about to change its state",
    EventField("function_id", int, is_recorded=True),
    EventField("state", VhcaState, is_recorded=True),
)  # fmt: skip
class StateChange(Losable[None], Delayable[None]):
    """A change between ALLOCATED, ACTIVE, IN_USE and TEARDOWN_REQUEST, and its event."""

    __slots__ = ("_before", "_node", "_one", "function_id", "state")
    ends_with_objects = True

    def __init__(self, faults: RuleInjector, one: SubFunction[Hca], state: VhcaState) -> None:
        super().__init__(faults)
        self._one = one
        self._node, self._before = one.node, one.state
        self.function_id, self.state = one.number, state

    def go_on(self) -> None:
        """Change the state, and raise its event at the manager if armed.

        No effect if the function or its state is not that of the event any more.
        """
        one = self._one
        if one.node is self._node and one.state is self._before:
            vhca_state.take(one, self.faults.hca.events, self.faults.hca.caps, self.state)

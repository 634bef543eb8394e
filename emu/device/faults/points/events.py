"""The fault points of events (EQEs) and of interrupts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from emu.device.engine.events import eq as eq_engine
from emu.device.engine.events.eq import EQE_POINT
from emu.device.faults.delivery_actions import Delayable, Losable, Reorderable, Repeatable
from emu.device.faults.event import EventField, Opened, RuleInjector, change_fields
from emu.device.faults.parameters import DATA, EVENT_DATA, event_layouts, new_data
from emu.device.faults.registry import action, mount, point
from emu.device.faults.rule import Rule
from emu.device.objects.queues.eq import Eq
from emu.device.ports import Buffer, Interrupts
from emu.device.state.points import FaultPoint
from emu.device.trace.decode import event_layout
from layouts.enums.eqe import EventType
from layouts.prm import Prm
from layouts.rings.eqe import eqe_comp

IRQ_POINT: FaultPoint[[int, Callable[[int], None]], None] = FaultPoint("irq")

DATA_BYTES = 28


def _layouts_in(match: Mapping[str, Any]) -> list[type[Prm]]:
    return event_layouts(match.get("type"))


@point(
    EQE_POINT, "an event is about to be written",
    EventField("type", EventType, is_recorded=True), EventField("sub_type", int),
    EventField("eqn", int), EventField("uid", int),
    opened=Opened("`data.` with a field of the event's data", _layouts_in, EVENT_DATA),
)  # fmt: skip
class EventQueueEntry(Losable[bool], Delayable[bool], Repeatable[bool], Reorderable[bool]):
    """An entry for an event queue. A dropped entry counts as written for the dispatcher."""

    __slots__ = ("_data", "_eq", "sub_type", "type")
    ends_with_objects = True
    instead = True

    def __init__(
        self, faults: RuleInjector, eq: Eq, event: EventType, sub_type: int, data: Buffer
    ) -> None:
        super().__init__(faults)
        self._eq = eq
        self.type = event
        self.sub_type = sub_type
        self._data = bytearray(bytes(data).ljust(DATA_BYTES, b"\0"))

    @property
    def eqn(self) -> int:
        """Number of the event queue."""
        return self._eq.handle

    @property
    def uid(self) -> int:
        """User context of the CQ of a completion event; 0 for the driver's, and other events."""
        if self.type != EventType.COMP:
            return 0
        cq = self.faults.hca.cqs.get(eqe_comp.view(self._data).cqn)
        return 0 if cq is None else cq.uid

    def views(self) -> Mapping[str, Prm]:
        """Return its data with and without prefix; none if no structure is declared for it."""
        layout = event_layout(self.type, self.sub_type)
        if layout is None:
            return {}
        view = layout.view(self._data)
        return {EVENT_DATA: view, "": view}

    def go_on(self) -> bool:
        """Write the entry (:func:`emu.device.engine.events.eq.write`).

        Return whether the EQ took it. False, without a write, if the EQ has been destroyed since.
        """
        hca, eq = self.faults.hca, self._eq
        return hca.eqs.get(eq.handle) is eq and eq_engine.write(
            hca.events, eq, self.type, self.sub_type, self._data
        )

    @action("fields of the event's data are set to the values in set",
            needs=[new_data(lambda rule: rule.get("match", {}).get("type"))])  # fmt: skip
    def corrupt(self, rule: Rule) -> bool:
        """Change fields of its data and write it; return whether the EQ took it.

        Raises NoEffectError if no field takes its value, also for an event without a known
        structure.
        """
        names = {name.removeprefix(EVENT_DATA): value for name, value in rule["set"].items()}
        change_fields([*self.views().values()][:1], names)
        return self.go_on()

    @action("data replaces the first bytes", needs=[DATA])
    def replace(self, rule: Rule) -> bool:
        """Overwrite the first bytes of its data and write it; return whether the EQ took it."""
        new = bytes.fromhex(rule["data"])[:DATA_BYTES]
        self._data[: len(new)] = new
        return self.go_on()


@point(IRQ_POINT, "an interrupt is about to be raised", EventField("vector", int, is_recorded=True))
class Interrupt(Losable[None], Delayable[None], Repeatable[None]):
    """An MSI-X message."""

    __slots__ = ("_trigger", "vector")

    def __init__(self, faults: RuleInjector, vector: int, trigger: Callable[[int], None]) -> None:
        super().__init__(faults)
        self.vector = vector
        self._trigger = trigger

    def go_on(self) -> None:
        """Raise it."""
        self._trigger(self.vector)


class ShownInterrupts:
    """Implements :class:`emu.device.ports.Interrupts` over others, and shows each to the rules."""

    def __init__(self, faults: RuleInjector, inner: Interrupts) -> None:
        self._faults = faults
        self._inner = inner

    def trigger(self, vector: int) -> None:
        """Show a vector to the rules, which may drop, delay or repeat it."""
        self._faults.show(IRQ_POINT, vector, self._inner.trigger)

    def permit(self, allowed: bool) -> None:
        """Forward to the wrapped interrupts."""
        self._inner.permit(allowed)

    def clear_pending(self) -> None:
        """Forward to the wrapped interrupts."""
        self._inner.clear_pending()

    def pending(self, vector: int) -> bool:
        """Return the result of the wrapped interrupts."""
        return self._inner.pending(vector)


@mount(IRQ_POINT)
def show_interrupts(faults: RuleInjector, *, requested: bool) -> None:
    """Wrap the HCA's interrupts to show each to the rules, or unwrap them."""
    own = faults.function.interrupts
    faults.hca.events.interrupts = ShownInterrupts(faults, own) if requested else own

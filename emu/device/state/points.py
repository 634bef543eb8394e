"""Fault points as the core sees them: locations where rules may make the device fail.

With rules loaded, a dispatcher shows each event at its point before the event happens::

    if hca.probes.faults is None:
        write(hca, eq, event)
    else:
        hca.probes.faults.show(EQE, eq, event)

``hca.probes.faults`` is None while no rule is loaded, so a point only costs an attribute test.
``emu.device.faults.points`` declares the fields and actions of each point; the core only knows the
point's name and the types of the arguments that it shows there.
"""

from __future__ import annotations

from typing import Generic, ParamSpec, Protocol, TypeVar

Shown = ParamSpec("Shown")
Result = TypeVar("Result")


class FaultPoint(Generic[Shown, Result]):
    """The key of a fault point: its name in plans, and the types of its arguments and result.

    ``Shown`` are the arguments that the dispatcher shows. ``Result`` is the result of the event, or
    a substitute if a rule has changed the event.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class FaultPoints(Protocol):
    """The rules of one function; ``hca.probes.faults`` is such an object while rules are loaded."""

    @property
    def is_gone(self) -> bool:
        """Whether the function is off the bus: reads return all-ones, writes are ignored."""

    @property
    def wants_packets(self) -> bool:
        """Whether any rule is about packets, so that messages inside the process become packets."""

    def show(
        self, point: FaultPoint[Shown, Result], *shown: Shown.args, **named: Shown.kwargs
    ) -> Result:
        """Show an event to the rules at a point, then let it happen; return the event's result.

        A rule may change, repeat, delay or drop the event, and the result is then a substitute. The
        dispatcher must not perform the event itself. Exceptions of the event or the rule propagate.
        """

    def forget_objects(self) -> None:
        """Cancel the delayed events that belong to objects, before all objects are dropped.

        Events of the port, such as packets, stay delayed.
        """

    @property
    def held(self) -> int:
        """Number of events that rules are delaying."""

    @property
    def in_force(self) -> int:
        """Number of effects on the device that have started and not ended."""

    def listing(self) -> list[dict[str, object]]:
        """Return each rule as plain values: its name, point, action and current counts."""


class FaultInjector(FaultPoints, Protocol):
    """The interface by which a function keeps its rules across resets."""

    def attach(self) -> None:
        """Set ``faults`` of the current HCA: this object, or None without loaded rules."""

    def power_on(self, cause: str) -> None:
        """Attach to the function's new HCA, cancel delayed events, show the power-on to the rules.

        ``cause`` is start, reset, flr, bus or firmware.
        """

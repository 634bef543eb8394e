"""Fault points as the core sees them: the places where rules may make the device fail.

A dispatcher that is about to do something shows it at its point, if there are rules::

    if hca.faults is None:
        write(hca, eq, event)
    else:
        hca.faults.show(EQE, eq, event)

``hca.faults`` is None while no rule is loaded, so a point only costs an attribute test. What rules
can match and do at a point is declared in ``emu.device.faults.points``; the core only knows the
point's name and the types of what it shows there.
"""

from __future__ import annotations

from typing import Generic, ParamSpec, Protocol, TypeVar

Shown = ParamSpec("Shown")
Result = TypeVar("Result")


class FaultPoint(Generic[Shown, Result]):
    """The key of a fault point: its name in plans, and the types of what it handles.

    ``Shown`` are the arguments that the dispatcher shows, ``Result`` is what it gets back: the
    result of what it was about to do, or a substitute if a rule has changed what happens.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class FaultPoints(Protocol):
    """The rules of one function; ``hca.faults`` is such an object while there are rules."""

    @property
    def is_gone(self) -> bool:
        """Whether the function is off the bus: it reads as all-ones and does nothing."""

    @property
    def wants_packets(self) -> bool:
        """Whether any rule is about packets, so that messages inside the process become packets."""

    def show(
        self, point: FaultPoint[Shown, Result], *shown: Shown.args, **named: Shown.kwargs
    ) -> Result:
        """Show what is about to happen at a point. It then happens, unless a rule changes that."""

    def forget_objects(self) -> None:
        """All objects are about to go: so do the events of theirs that rules are holding back."""

    @property
    def held(self) -> int:
        """How many events rules are holding back now."""

    @property
    def in_force(self) -> int:
        """How many effects on the device have begun and not ended."""

    def listing(self) -> list[dict[str, object]]:
        """Each rule as plain values: its name, point, action and current state."""


class FaultInjector(FaultPoints, Protocol):
    """What a function needs in order to keep its rules across resets."""

    def attach(self) -> None:
        """Set ``faults`` of the function's current HCA to this object, if there are rules."""

    def power_on(self, cause: str) -> None:
        """The function has a new HCA; ``cause`` is start, reset, flr, bus or firmware."""

"""Fault points: the places where rules may make the device fail, as the core sees them.

A dispatcher that is about to do something shows it at its point, if there are rules::

    if hca.faults is None:
        write(hca, eq, event)
    else:
        hca.faults.show(EQE, eq, event)

``hca.faults`` is None while no rule is loaded, so that a point costs an attribute test. What the
rules know of a point, and what they can do there, is declared in ``emu.faults.points``; the core
knows the point's name and what passes it.
"""

from __future__ import annotations

from typing import Any, Generic, ParamSpec, Protocol, TypeVar

Shown = ParamSpec("Shown")
Told = TypeVar("Told")


class FaultPoint(Generic[Shown, Told]):
    """The key of a fault point: its name in plans, and what passes it.

    ``Shown`` are the arguments that its dispatcher shows, ``Told`` is what the dispatcher gets: the
    result of what it was about to do, or what stands for it when a rule has it otherwise.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class FaultPoints(Protocol):
    """The rules of one function: what ``hca.faults`` is while there are any."""

    @property
    def is_gone(self) -> bool:
        """Whether the function is off the bus: it reads as all-ones and does nothing."""

    @property
    def wants_packets(self) -> bool:
        """Whether rules are about packets: messages inside the process become packets, too."""

    def show(
        self, point: FaultPoint[Shown, Told], *shown: Shown.args, **named: Shown.kwargs
    ) -> Told:
        """Show what is about to happen at a point. It happens, or what a rule makes of it."""

    @property
    def held(self) -> int:
        """How many events rules hold back now."""

    @property
    def in_force(self) -> int:
        """How many effects on the device have begun and not ended."""

    def listing(self) -> list[dict[str, Any]]:
        """Each rule as plain values: its name, point and action, and where it stands."""


class FaultInjector(FaultPoints, Protocol):
    """What a function needs of its rules to keep them across resets."""

    def attach(self) -> None:
        """Be the ``faults`` of the function's present HCA, if there are rules."""

    def power_on(self, cause: str) -> None:
        """The function has a new HCA; ``cause`` is start, reset, flr, bus or firmware."""

"""Declarations of fault points, and the tables that they fill.

A module of ``emu.device.faults.points`` declares its points::

    IRQ: FaultPoint[[int], None] = FaultPoint("irq")

    @point(IRQ, "an interrupt is about to be raised", Field("vector", int, is_recorded=True))
    class Interrupt(Event[None]):
        ...
        @action("it is lost")
        def drop(self, rule): ...

The keys of plans, their checks, the table in the plans' README and the record's names derive from
the declaration. A new point needs such a class, the line in its dispatcher that shows the event,
and a test. An incomplete declaration raises :class:`DeclarationError` on import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Protocol, TypeVar, cast

from emu.device.faults.effects import Begin
from emu.device.faults.event import Event, EventField, Opened, RuleInjector
from emu.device.faults.rule import Rule
from emu.device.state.points import FaultPoint, Result, Shown

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")

Problem = tuple[str, str]
"""A key of a rule, and its mistake."""

Check = Callable[[Any, Mapping[str, object]], Iterator[Problem]]
"""Yields the mistakes of a parameter's value, in a rule given as its table."""


class DeclarationError(TypeError):
    """A fault point's declaration is incomplete, or contradicts another one."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A key that a rule may have for its action."""

    name: str
    type: Any
    """A type for pydantic; the same wherever the parameter is declared."""
    check: Check | None = None
    names: tuple[str, ...] = ()
    """Named values, if the parameter has any."""


@dataclass(frozen=True, slots=True)
class PointAction:
    """An action of a rule on the events of one point."""

    name: str
    about: str
    needs: tuple[Parameter, ...]
    takes: tuple[Parameter, ...]
    """Parameters with a default."""
    carry_out: Callable[[Any, Rule], Any]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters that a rule may give it."""
        return self.needs + self.takes


@dataclass(frozen=True, slots=True)
class Effect:
    """An action of a rule on the device as a whole; the event that triggers it still happens."""

    action: PointAction
    begin: Begin
    points: frozenset[str] | None
    """The points where it is possible; None for all."""


@dataclass(frozen=True, slots=True)
class DeclaredPoint:
    """A declared point."""

    name: str
    about: str
    """Description of an event of this point."""
    fields: Mapping[str, EventField]
    opened: Opened | None
    actions: Mapping[str, PointAction]
    event: type[Event[Any]]
    is_of_packets: bool
    """Whether messages inside the process become packets while a rule is about it."""


class Mount(Protocol):
    """Wraps a port of the device to show its accesses to the rules, or unwraps it."""

    def __call__(self, faults: RuleInjector, *, requested: bool) -> None:
        """Wrap the port if ``requested``: a rule is about one of its points; else unwrap it.

        Called at each change of rules.
        """


POINTS: dict[str, DeclaredPoint] = {}
EFFECTS: dict[str, Effect] = {}
PARAMETERS: dict[str, Parameter] = {}
MOUNTS: list[tuple[frozenset[str], Mount]] = []

_DECLARED = "__action__"
_Method = TypeVar("_Method", bound=Callable[..., Any])
_Begin = TypeVar("_Begin", bound=Begin)
_Mount = TypeVar("_Mount", bound=Mount)


def action(
    about: str, needs: Sequence[Parameter] = (), takes: Sequence[Parameter] = ()
) -> Callable[[_Method], _Method]:
    """Return a decorator that declares a method of an event as an action of the same name.

    ``needs`` are required parameters, ``takes`` those with a default. :func:`point` registers the
    action.
    """

    def declare(method: _Method) -> _Method:
        name = method.__name__
        setattr(method, _DECLARED, PointAction(name, about, tuple(needs), tuple(takes), method))
        return method

    return declare


def point(
    key: FaultPoint[Shown, Result],
    about: str,
    *fields: EventField,
    opened: Opened | None = None,
    is_of_packets: bool = False,
) -> Callable[
    [Callable[Concatenate[RuleInjector, Shown], Event[Result]]],
    Callable[Concatenate[RuleInjector, Shown], Event[Result]],
]:
    """Return a decorator that declares a class as the events of a point, in ``POINTS``.

    ``fields`` are the fields that rules match, each an attribute of the class. The class is called
    with the injector and with the dispatcher's arguments of ``show``. The decorator raises
    DeclarationError for an incomplete or contradictory declaration.
    """

    def declare(
        event: Callable[Concatenate[RuleInjector, Shown], Event[Result]],
    ) -> Callable[Concatenate[RuleInjector, Shown], Event[Result]]:
        """Register the class and its actions; return the class. Raises DeclarationError."""
        cls = cast(type[Event[Any]], event)
        declared = DeclaredPoint(
            key.name, about, {field.name: field for field in fields}, opened,
            dict(_actions(cls)), cls, is_of_packets,
        )  # fmt: skip
        for why in _gaps(declared, len(fields)):
            raise DeclarationError(f"fault point {key.name!r}, {cls.__qualname__}: {why}")
        for one in declared.actions.values():
            _take_parameters(one)
        cls.point, cls.declared = key.name, declared.fields
        POINTS[key.name] = declared
        return event

    return declare


def effect(
    about: str,
    needs: Sequence[Parameter] = (),
    takes: Sequence[Parameter] = (),
    at: Sequence[FaultPoint[..., Any]] | None = None,
) -> Callable[[_Begin], _Begin]:
    """Return a decorator that declares a function as an action on the device as a whole.

    The action is possible at all points, or ``at`` some. The function starts the effect and returns
    its ending, or None. The decorator raises DeclarationError for a name that an action has, and
    without a description.
    """

    def declare(begin: _Begin) -> _Begin:
        """Register the function under its name in ``EFFECTS``; return it.

        Raises DeclarationError.
        """
        name = begin.__name__
        declared = PointAction(name, about, tuple(needs), tuple(takes), begin)
        if name in EFFECTS or any(name in one.actions for one in POINTS.values()):
            raise DeclarationError(f"effect {name!r}: an action has this name already")
        if not about:
            raise DeclarationError(f"effect {name!r}: no description")
        _take_parameters(declared)
        points = None if at is None else frozenset(key.name for key in at)
        EFFECTS[name] = Effect(declared, begin, points)
        return begin

    return declare


def mount(*keys: FaultPoint[..., Any]) -> Callable[[_Mount], _Mount]:
    """Return a decorator that declares a function as the ``Mount`` of these points."""

    def declare(function: _Mount) -> _Mount:
        MOUNTS.append((frozenset(key.name for key in keys), function))
        return function

    return declare


def _actions(cls: type) -> Iterator[tuple[str, PointAction]]:
    """Yield name and action of the declared methods: first the class's own, then inherited ones.

    A method that overrides an inherited one keeps its description unless it is declared anew.
    """
    actions = set()
    for owner in getattr(cls, "__mro__", ()):
        for name, method in vars(owner).items():
            declared = getattr(method, _DECLARED, None)
            if isinstance(declared, PointAction) and name not in actions:
                actions.add(name)
                yield name, replace(declared, carry_out=getattr(cls, name))


def _gaps(declared: DeclaredPoint, field_count: int) -> Iterator[str]:
    """Yield the mistakes of a declaration, each in words; none for a complete one."""
    cls = declared.event
    if not (isinstance(cls, type) and issubclass(cls, Event)):
        yield "not a subclass of Event"
        return
    if not _NAME.fullmatch(declared.name):
        yield "the name is not lower-case words separated by dots"
    if declared.name in POINTS:
        yield f"{POINTS[declared.name].event.__qualname__} is declared as that point already"
    if not declared.about:
        yield "no description of its events"
    if cls.go_on is Event.go_on:
        yield "no method go_on"
    if (declared.opened is None) != (cls.views is Event.views):
        yield "opened and a method views are needed together"
    if len(declared.fields) != field_count:
        yield "two fields have the same name"
    for name in declared.fields:
        if hasattr(Event, name) or name in declared.actions:
            yield f"field {name!r} has the name of a method"
        elif not hasattr(cls, name):
            yield f"no attribute for field {name!r}"
    for one in declared.actions.values():
        if not one.about:
            yield f"action {one.name!r} has no description"
        if one.name in EFFECTS:
            yield f"action {one.name!r} is an effect on the device already"


def _take_parameters(declared: PointAction) -> None:
    """Register the parameters of an action in ``PARAMETERS``.

    Raises DeclarationError for one that is declared with another type already.
    """
    for parameter in declared.parameters:
        known = PARAMETERS.setdefault(parameter.name, parameter)
        if known.type != parameter.type:
            raise DeclarationError(
                f"action {declared.name!r}: parameter {parameter.name!r} is declared with two types"
            )

"""An event at a fault point: what a dispatcher is about to do, and what a rule can do instead.

Each point declares a subclass of :class:`Event` (:mod:`emu.device.faults.registry`). The fields
that a rule may match are its attributes; ``go_on`` does what the dispatcher was about to do; each
action that a rule can take there is a method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from emu.device.faults.enum_names import agrees, name_of
from emu.device.faults.rule import Rule
from emu.device.state.points import FaultPoint, Shown
from emu.device.state.points import Result as Result
from layouts.codec import View
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.function.function import Function
    from emu.device.state.hca import Hca

FieldKind = type[int] | type[str] | type[Enum] | tuple[str, ...]
"""The values that a field has: numbers, any names, an enumeration's members, or these names."""


class NoEffectError(Exception):
    """What a rule wants changes nothing; the text says why. Nothing has been changed."""


MISSING = object()
"""The value of a field that an event does not have; no rule matches it."""


class RuleInjector(Protocol):
    """The injector, as events and effects see it."""

    @property
    def function(self) -> Function:
        """The function that the rules are about."""

    @property
    def hca(self) -> Hca:
        """The function's state between two resets."""

    @property
    def is_gone(self) -> bool:
        """Whether the function is off the bus."""

    def lacks_pages(self) -> bool:
        """Return whether the firmware creates no object because it waits for pages."""

    def show(
        self, point: FaultPoint[Shown, Result], *shown: Shown.args, **named: Shown.kwargs
    ) -> Result:
        """Show an event of another point that follows from this one."""

    def later(
        self, rule: Rule, call: Callable[[], object], event: Event[Any], ms: float | None = None
    ) -> None:
        """Call back after ``ms``, or after the rule's time if None, by the device's clock.

        Does nothing if the function is reset before, or its objects go and the event with them.
        """

    def behind_next(self, event: Event[Any]) -> None:
        """Let an event go on after the next event of its point."""

    def guarded(self, call: Callable[[], object]) -> None:
        """Run a delayed action; an exception in it is logged and does not end the loop."""

    def attach(self) -> None:
        """Watch the points that rules are about, and no others."""

    def follow(self) -> None:
        """A command has run: arm the rules that are now due, remove those that end here."""


class EventField:
    """A field that the events of a point have; its name is that of their attribute."""

    __slots__ = ("is_recorded", "kind", "name")

    def __init__(self, name: str, kind: FieldKind, *, is_recorded: bool = False) -> None:
        """``is_recorded`` fields go into the record: they identify the event and do not change from
        run to run."""
        self.name = name
        self.kind = kind
        self.is_recorded = is_recorded


class Opened:
    """Further fields of an event: those of a structure that it carries."""

    __slots__ = ("about", "layout", "prefix")

    def __init__(
        self, about: str, layout: Callable[[Mapping[str, Any]], Prm | None], prefix: str = ""
    ) -> None:
        """``about`` names the structure for readers of the table.

        ``layout`` returns it for a rule's ``match``, None if ``match`` does not determine it.
        ``prefix`` precedes its fields' names.
        """
        self.about = about
        self.layout = layout
        self.prefix = prefix


class Event(Generic[Result]):
    """An event of one point."""

    __slots__ = ("faults",)

    point: ClassVar[str]
    declared: ClassVar[Mapping[str, EventField]]
    """The declaration's fields, by name."""
    ends_with_objects: ClassVar[bool] = False
    """Whether it is of an object, and must not happen when all objects have gone."""
    instead: ClassVar[Any] = None
    """What the dispatcher gets back when a rule keeps the event from going on now."""

    def __init__(self, faults: RuleInjector) -> None:
        self.faults = faults

    def go_on(self) -> Result:
        """Do what the dispatcher was about to do."""
        raise NotImplementedError

    def go_on_late(self) -> object:
        """As ``go_on``, later, when the dispatcher has already gone on."""
        return self.go_on()

    def keep(self) -> None:
        """Copy what would not outlive the call that showed the event."""

    def views(self) -> Mapping[str, View]:
        """Views of the structures that it carries, by the prefix of their fields' names."""
        return {}

    def get(self, name: str) -> Any:
        """A field's value, or MISSING."""
        if name in self.declared:
            return getattr(self, name)
        for prefix, view in self.views().items():
            if name.startswith(prefix):
                return field_of(view, name.removeprefix(prefix))
        return MISSING

    def agrees(self, match: Mapping[str, Any]) -> bool:
        """Whether every field in ``match`` has a wanted value."""
        return all(agrees(requested, self.get(name)) for name, requested in match.items())

    def summary(self) -> dict[str, Any]:
        """Names and numbers that identify the event; nothing that changes from run to run."""
        values = ((field.name, self.get(field.name)) for field in self.declared.values()
                if field.is_recorded)  # fmt: skip
        return {name: name_of(value) for name, value in values if value is not MISSING}


def field_of(view: object, path: str) -> Any:
    """The value at a dotted path of a view, or MISSING."""
    for name in path.split("."):
        if not isinstance(view, View) or name not in {field.name for field in view.prm.fields}:
            return MISSING
        view = getattr(view, name)
    return view


def change_fields(views: Iterable[Any], values: Mapping[str, Any]) -> None:
    """Set fields of views. Raises :class:`NoEffectError` when none of them has any."""
    if all(set(set_fields(view, values)) == values.keys() for view in views):
        raise NoEffectError(f"it has no field {', '.join(values)} that takes the value")


def set_fields(view: object, values: Mapping[str, Any]) -> list[str]:
    """Set fields of a view; returns the names of those that could not be set."""
    refused = []
    for path, value in values.items():
        *way, name = path.split(".")
        holder = field_of(view, ".".join(way)) if way else view
        if not isinstance(holder, View) or field_of(holder, name) is MISSING:
            refused.append(path)
            continue
        try:
            setattr(holder, name, bytes.fromhex(value) if isinstance(value, str) else int(value))
        except (ValueError, TypeError):
            refused.append(path)
    return refused

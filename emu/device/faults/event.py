"""An event at a fault point: a step of a dispatcher, and the actions of rules instead of it.

Each point declares a subclass of :class:`Event` (:mod:`emu.device.faults.registry`). Its attributes
are the fields that a rule may match, ``go_on`` performs the dispatcher's step, and each action of a
rule is a method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from emu.device.faults.delays import Delays
from emu.device.faults.enum_names import agrees, name_of
from emu.device.state.points import FaultPoint, Shown
from emu.device.state.points import Result as Result
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.function.function import Function
    from emu.device.state.hca import Hca

FieldKind = type[int] | type[str] | type[Enum] | tuple[str, ...]
"""Values of a field: numbers, any names, an enumeration's members, or these names."""


LOAD_POINT: FaultPoint[[], None] = FaultPoint("load")
POWER_ON_POINT: FaultPoint[[str], None] = FaultPoint("power_on")
"""The points that the injector itself shows: a rule is loaded, the function is powered on."""


class NoEffectError(Exception):
    """A rule's action would change nothing, and nothing has been changed; the text gives the
    reason.
    """


MISSING = object()
"""The value of a field that an event does not have; no rule matches it."""


class RuleInjector(Protocol):
    """The injector, as events and effects see it."""

    @property
    def function(self) -> Function:
        """The function of the rules."""

    @property
    def hca(self) -> Hca:
        """The function's state between two resets."""

    @property
    def delays(self) -> Delays:
        """Events that wait: delayed ones, those in line behind them, and reordered ones."""

    @property
    def is_gone(self) -> bool:
        """Whether the function is off the bus."""

    def lacks_pages(self) -> bool:
        """Return whether the firmware creates no object because it waits for pages."""

    def show(
        self, point: FaultPoint[Shown, Result], *shown: Shown.args, **named: Shown.kwargs
    ) -> Result:
        """Show an event of another point that follows from this one; return its result."""

    def guarded(self, call: Callable[[], object]) -> None:
        """Run a delayed action; an exception in it is logged and does not propagate."""

    def attach(self) -> None:
        """Enable the points of the loaded rules, and no others."""

    def follow(self) -> None:
        """Arm and remove rules that are due after a command, and make calls that are due."""


class FaultPacket(Protocol):
    """The packet of an event, for a capture."""

    @property
    def is_sent(self) -> bool:
        """Whether the function sends the packet; False for a received one."""

    @property
    def carried(self) -> object:
        """Object that the wire carries for the packet: a capture recognizes it by its identity.

        None while a packet has not been sent.
        """

    def frame_bytes(self) -> bytes:
        """Return a packet that is sent, as the wire would carry it; empty if none can be made."""


class EventField:
    """A field of the events of a point, named after their attribute."""

    __slots__ = ("is_recorded", "kind", "name")

    def __init__(self, name: str, kind: FieldKind, *, is_recorded: bool = False) -> None:
        """Create a field; ``is_recorded`` fields identify the event in records, equally in every
        run.
        """
        self.name = name
        self.kind = kind
        self.is_recorded = is_recorded


class Opened:
    """Further fields of an event: those of a structure that it carries."""

    __slots__ = ("about", "layouts", "prefix")

    def __init__(
        self,
        about: str,
        layouts: Callable[[Mapping[str, Any]], Sequence[type[Prm]]],
        prefix: str = "",
    ) -> None:
        """Store the fields; ``about`` describes them for readers of the table.

        ``layouts`` returns the structures that an event with a rule's ``match`` may carry, or none
        where they are unknown. ``prefix`` may precede their fields' names.
        """
        self.about = about
        self.layouts = layouts
        self.prefix = prefix


class Event(Generic[Result]):
    """An event of one point."""

    __slots__ = ("faults",)

    point: ClassVar[str]
    declared: ClassVar[Mapping[str, EventField]]
    """The declaration's fields, by name."""
    ends_with_objects: ClassVar[bool] = False
    """Whether the event belongs to an object, and is dropped with all objects."""
    instead: ClassVar[Any] = None
    """Result for the dispatcher when a rule drops or delays the event."""

    def __init__(self, faults: RuleInjector) -> None:
        self.faults = faults

    def go_on(self) -> Result:
        """Perform the dispatcher's step, and return its result.

        Abstract: each point implements it.
        """
        raise NotImplementedError

    def go_on_late(self) -> object:
        """Perform the step later, when the dispatcher has already continued with a substitute."""
        return self.go_on()

    def keep(self) -> None:
        """Copy the data that does not outlive the call that showed the event; empty by default."""

    def views(self) -> Mapping[str, Prm]:
        """Return views of the structures that it carries, by the prefix of their fields' names."""
        return {}

    def get(self, name: str) -> Any:
        """Return the value of a declared field, or of a field of a carried structure.

        Else MISSING.
        """
        if name in self.declared:
            return getattr(self, name)
        for prefix, view in self.views().items():
            if name.startswith(prefix):
                return field_of(view, name.removeprefix(prefix))
        return MISSING

    def agrees(self, match: Mapping[str, Any]) -> bool:
        """Return whether every field in ``match`` has a requested value."""
        return all(agrees(requested, self.get(name)) for name, requested in match.items())

    @property
    def packet(self) -> FaultPacket | None:
        """Packet of the event, for a capture; None for an event without one."""
        return None

    def summary(self) -> dict[str, Any]:
        """Return the recorded fields by name, enumerations as names; the same in every run."""
        values = ((field.name, self.get(field.name)) for field in self.declared.values()
                if field.is_recorded)  # fmt: skip
        return {name: name_of(value) for name, value in values if value is not MISSING}


def field_of(view: object, path: str) -> Any:
    """Return the value at a dotted path of a view; MISSING for a path that leads nowhere."""
    for name in path.split("."):
        if not isinstance(view, Prm) or name not in {field.name for field in type(view).fields}:
            return MISSING
        view = getattr(view, name)
    return view


def change_fields(views: Iterable[Any], values: Mapping[str, Any]) -> None:
    """Set fields of the first view that accepts at least one value, and leave the others.

    Raises :class:`NoEffectError` when no view accepts any value.
    """
    if all(set(set_fields(view, values)) == values.keys() for view in views):
        raise NoEffectError(f"no field {', '.join(values)} takes the value")


def set_fields(view: object, values: Mapping[str, Any]) -> list[str]:
    """Set fields of a view by dotted names; return the names of those that could not be set.

    A string sets bytes, by hexadecimal digits. Unknown names and values that do not fit are
    refused; the other fields are set.
    """
    refused = []
    for path, value in values.items():
        *parents, name = path.split(".")
        holder = field_of(view, ".".join(parents)) if parents else view
        if not isinstance(holder, Prm) or field_of(holder, name) is MISSING:
            refused.append(path)
            continue
        try:
            setattr(holder, name, bytes.fromhex(value) if isinstance(value, str) else int(value))
        except (ValueError, TypeError):
            refused.append(path)
    return refused

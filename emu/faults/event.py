"""An event at a point, as rules see it: plain values, and the declared structures behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emu.faults.names import agrees, name_of
from emu.faults.vocabulary import Point
from layouts.codec import View

MISSING = object()
"""The value of a field that an event does not have; nothing agrees with it."""


class Event:
    """What passes a point. ``views`` are structures by the prefix of their fields' names."""

    __slots__ = ("point", "values", "views")

    def __init__(
        self, point: Point, values: Mapping[str, Any], views: Mapping[str, Any] | None = None
    ) -> None:
        self.point = point
        self.values = values
        self.views = views or {}

    def get(self, name: str) -> Any:
        """A field's value, or MISSING."""
        if name in self.values:
            return self.values[name]
        for prefix, view in self.views.items():
            if name.startswith(prefix):
                return field_of(view, name.removeprefix(prefix))
        return MISSING

    def agrees(self, match: Mapping[str, Any]) -> bool:
        """Whether every field is one that ``match`` wants."""
        return all(agrees(wanted, self.get(name)) for name, wanted in match.items())

    def summary(self) -> dict[str, Any]:
        """Names and numbers that say which event it was; nothing that changes from run to run."""
        return {
            name: name_of(self.values[name]) for name in _TOLD[self.point] if name in self.values
        }


_TOLD: Mapping[Point, tuple[str, ...]] = {
    Point.LOAD: (),
    Point.POWER_ON: ("cause",),
    Point.CMD: ("op", "op_mod"),
    Point.CMD_DONE: ("op", "op_mod"),
    Point.CMD_COMPLETION: ("op",),
    Point.WQE: ("opcode",),
    Point.CQE: ("opcode",),
    Point.EQE: ("type",),
    Point.IRQ: ("vector",),
    Point.PAGE_FAULT: ("kind", "side"),
    Point.PAGE_FAULT_RESUME: ("kind", "side", "error"),
    Point.DOORBELL: ("kind",),
    Point.MMIO_READ: ("register",),
    Point.MMIO_WRITE: ("register",),
    Point.DMA_READ: ("length",),
    Point.DMA_WRITE: ("length",),
    Point.PKT_TX: ("kind", "service"),
    Point.PKT_RX: ("kind", "service"),
}


def field_of(view: Any, path: str) -> Any:
    """The value at a dotted path of a view, or MISSING."""
    for name in path.split("."):
        if not isinstance(view, View) or name not in {field.name for field in view.prm.fields}:
            return MISSING
        view = getattr(view, name)
    return view


def set_fields(view: Any, values: Mapping[str, Any]) -> list[str]:
    """Give fields of a view their new values; the names of those that could not be set."""
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

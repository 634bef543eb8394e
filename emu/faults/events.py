"""The points of events and interrupts: what the driver is told, and how it is woken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from emu.engine import eq as eq_engine
from emu.faults.event import Event, set_fields
from emu.faults.vocabulary import Action, Point
from emu.objects import Eq
from emu.ports import Buffer, Interrupts
from emu.trace.decode import event_layout
from layouts.enums import EventType

if TYPE_CHECKING:
    from emu.faults.injector import Injector

DATA_BYTES = 28


class EventPoint:
    """Stands before the writer of EQEs."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults
        self._held: list[Callable[[], bool]] = []

    def forget(self) -> None:
        """The function was reset: nothing that was held back comes."""
        self._held.clear()

    def post(self, eq: Eq, event: EventType, sub_type: int, data: Buffer) -> bool:
        """As :func:`emu.engine.eq.post`; an event that a rule loses counts as posted."""
        whole = bytearray(bytes(data).ljust(DATA_BYTES, b"\0"))
        layout = event_layout(event, sub_type)
        views = {"data.": layout.view(whole)} if layout is not None else {}
        values = {"type": event, "sub_type": sub_type, "eqn": eq.handle}
        rule = self._faults.at(Event(Point.EQE, values, views))
        write = partial(self._write, eq, event, sub_type, whole)
        held, self._held = self._held, []
        done = True
        if rule is None:
            done = write()
        elif rule.action is Action.DELAY:
            self._faults.later(rule, write)
        elif rule.action is Action.REORDER:
            self._held.append(write)
        elif rule.action is Action.DUPLICATE:
            for _ in range(1 + (rule.count or 1)):
                done = write()
        elif rule.action is Action.CORRUPT and views:
            names = {name.removeprefix("data."): value for name, value in (rule.set or {}).items()}
            set_fields(views["data."], names)
            done = write()
        elif rule.action is Action.REPLACE:
            new = bytes.fromhex(rule.data or "")[:DATA_BYTES]
            whole[: len(new)] = new
            done = write()
        for late in held:
            late()
        return done

    def _write(self, eq: Eq, event: EventType, sub_type: int, data: Buffer) -> bool:
        hca = self._faults.hca
        return hca.eqs.get(eq.handle) is eq and eq_engine.write(hca, eq, event, sub_type, data)


class FaultyInterrupts:
    """Implements :class:`emu.ports.Interrupts` over others, which may lose some."""

    def __init__(self, faults: Injector, inner: Interrupts) -> None:
        self._faults = faults
        self._inner = inner

    def trigger(self, vector: int) -> None:
        """Raise a vector: once, later, more often or never."""
        rule = self._faults.at(Event(Point.IRQ, {"vector": vector}))
        if rule is None:
            self._inner.trigger(vector)
        elif rule.action is Action.DELAY:
            self._faults.later(rule, lambda: self._inner.trigger(vector))
        elif rule.action is Action.DUPLICATE:
            for _ in range(1 + (rule.count or 1)):
                self._inner.trigger(vector)

    def permit(self, allowed: bool) -> None:
        """As the others."""
        self._inner.permit(allowed)

    def clear_pending(self) -> None:
        """As the others."""
        self._inner.clear_pending()

    def pending(self, vector: int) -> bool:
        """As the others say."""
        return self._inner.pending(vector)

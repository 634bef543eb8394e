"""The points of page faults: before the driver is told of one, and when it resumes one.

They are of both schemes, and know the fault itself: a rule can name the queue pair, the side that
waits and the key. The bytes of the event are the point ``eqe``'s.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from emu.engine import eq as eq_engine
from emu.engine import page_faults
from emu.engine.odp import Fault
from emu.faults.commands import InjectedError
from emu.faults.event import Event
from emu.faults.vocabulary import Action, Point
from layouts.enums import EventType

if TYPE_CHECKING:
    from emu.faults.injector import Injector


class PageFaultPoint:
    """Stands between the page faults of a function and its driver."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults

    def tell(self, fault: Fault) -> None:
        """As :func:`emu.engine.page_faults.announce`."""
        announce = partial(self._announce, fault)
        rule = self._faults.at(Event(Point.PAGE_FAULT, _values(fault)))
        if rule is None:
            announce()
        elif rule.action is Action.FAIL:
            self._faults.later(rule, partial(self._end, fault, refused=True), ms=0)
        elif rule.action is Action.DELAY:
            self._faults.later(rule, announce)
        elif rule.action is Action.DUPLICATE:
            announce()
            for _ in range(rule.count or 1):
                self._post(fault, fault.token)
        elif rule.action is Action.CORRUPT:
            self._post(fault, int((rule.set or {}).get("token", fault.token)))

    def resume(self, fault: Fault, *, refused: bool) -> None:
        """As :func:`emu.engine.page_faults.end`. Raises CmdError for a rule that refuses."""
        rule = self._faults.at(
            Event(Point.PAGE_FAULT_RESUME, _values(fault) | {"error": int(refused)})
        )
        if rule is None:
            self._end(fault, refused=refused)
        elif rule.action is Action.FAIL:
            raise InjectedError(rule)
        elif rule.action is Action.DELAY:
            self._faults.later(rule, partial(self._end, fault, refused=refused))
        elif rule.action is Action.CORRUPT:
            self._end(fault, refused=bool((rule.set or {}).get("error", refused)))

    def _announce(self, fault: Fault) -> None:
        if fault.is_open:
            page_faults.announce(self._faults.hca, fault)

    def _post(self, fault: Fault, token: int) -> None:
        """An event beside the ordinary ones; it is lost when the queue has no room."""
        hca = self._faults.hca
        eq = hca.event_eq(EventType.PAGE_FAULT)
        if eq is not None:
            eq_engine.post(hca, eq, EventType.PAGE_FAULT, *fault.event(token))

    def _end(self, fault: Fault, *, refused: bool) -> None:
        """End the waiting, unless something has ended it meanwhile."""
        if fault.is_open:
            page_faults.end(self._faults.hca, fault, refused=refused)


def _values(fault: Fault) -> dict[str, object]:
    return {
        "kind": fault.access.kind, "side": fault.side, "qpn": fault.qp.handle,
        "key": fault.page.key, "length": fault.page.length,
    }  # fmt: skip

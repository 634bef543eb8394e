"""The events of one function that rules have delayed or reordered, until they happen."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import ClassVar, Protocol

from emu.device.faults.lines import MAX_DELAYED, Lines
from emu.device.faults.rule import Rule
from emu.device.ports import Clock, Timer

log = logging.getLogger(__name__)


class LateEvent(Protocol):
    """An event, as far as its delay needs it."""

    point: ClassVar[str]
    ends_with_objects: ClassVar[bool]
    """Whether the event belongs to an object, and is dropped with all objects."""

    def go_on_late(self) -> object:
        """Perform the event, when the dispatcher has already continued with a substitute."""


class Delays:
    """Delayed events, those in line behind them, and reordered ones."""

    def __init__(
        self,
        clock: Callable[[], Clock],
        guarded: Callable[[Callable[[], object]], None],
        on_empty_lines: Callable[[], None],
    ) -> None:
        """Start without events.

        ``clock`` returns the clock of the function's current state. Late calls are made by
        ``guarded``. ``on_empty_lines`` is called when no event waits in line any more.
        """
        self._clock = clock
        self._guarded = guarded
        self.held: Counter[str] = Counter()
        """Number of delayed and reordered events that wait, by the name of their rule.

        Events in line behind a delayed one are not counted.
        """
        self._timers: dict[Timer, tuple[str, LateEvent | None]] = {}
        """Pending timers: the rule of each, and the event if it ends with its objects."""
        self._behind: dict[str, list[tuple[Rule, LateEvent]]] = {}
        """Events that wait for the next one of their point, with the rules that reordered them."""
        self._lines = Lines(guarded, on_empty_lines, lambda call: clock().call_later(0, call))

    @property
    def is_in_line(self) -> bool:
        """Whether an event waits in line, a delayed one or one behind it."""
        return bool(self._lines)

    # -- starts

    def later(
        self, rule: Rule, call: Callable[[], object], event: LateEvent, ms: float | None = None
    ) -> None:
        """Make ``call`` after ``ms``, or after the rule's time if None, by the device's clock.

        A reset of the function cancels the call; so does the end of its objects, for an event with
        ``ends_with_objects``. With MAX_DELAYED calls pending the call is made in the next round
        instead.
        """
        held, ms = self.held, (rule["ms"] or 0) if ms is None else ms
        if held.total() >= MAX_DELAYED:
            log.warning("%d events are already delayed: event not delayed", held.total())
            ms = 0

        def go() -> None:
            held[rule.name] -= 1
            del self._timers[timer]
            self._guarded(call)

        held[rule.name] += 1
        timer = self._clock().call_later(int(ms * 1_000_000), go)
        self._timers[timer] = rule.name, event if event.ends_with_objects else None

    def later_in_line(
        self, rule: Rule, line: object, call: Callable[[], object], event: LateEvent
    ) -> None:
        """Do :meth:`later`, and delay the later calls of a line as well, which are in order."""
        self.later(rule, self._lines.delay(line, call), event)

    def follows_in_line(self, line: object, call: Callable[[], object]) -> bool:
        """Make ``call`` behind the delayed calls of a line; return False if there are none."""
        return self._lines.follow(line, call)

    def behind_next(self, rule: Rule, event: LateEvent) -> None:
        """Perform an event after the next event of its point, or when its rule is removed."""
        self.held[rule.name] += 1
        self._behind.setdefault(event.point, []).append((rule, event))

    # -- ends

    def take_behind(self, point: str) -> Callable[[], None]:
        """Take the reordered events that wait for this event of a point; return what performs them.

        An exception of a reordered event is only logged.
        """
        behind = self._behind.pop(point, ())

        def perform() -> None:
            for rule, event in behind:
                self.held[rule.name] -= 1
                self._guarded(event.go_on_late)

        return perform

    def perform_waiting(self, rule: Rule) -> None:
        """Perform the events that a removed rule has reordered in the next round."""
        for point, waiting in self._behind.items():
            self._behind[point] = [one for one in waiting if one[0] is not rule]
            for other, event in waiting:
                if other is rule:
                    self.held[rule.name] -= 1
                    self.later(rule, event.go_on_late, event, ms=0)

    def clear(self) -> None:
        """Cancel all events."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._lines.clear()
        self.held = Counter()
        self._behind = {}

    def forget_objects(self) -> None:
        """Cancel the events of objects; those with ``ends_with_objects`` False stay."""
        self._lines.clear()
        for timer, (name, event) in list(self._timers.items()):
            if event is not None:
                timer.cancel()
                del self._timers[timer]
                self.held[name] -= 1
        for point, waiting in self._behind.items():
            self._behind[point] = [one for one in waiting if not one[1].ends_with_objects]
            for rule, event in waiting:
                self.held[rule.name] -= event.ends_with_objects

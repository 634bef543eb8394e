"""Actions for events that send something: drop, delay, duplicate, reorder.

The events of a point have the applicable classes as bases; an override of a method gives the action
its own description.
"""

from __future__ import annotations

from typing import Any

from emu.device.faults.event import Event, Result
from emu.device.faults.parameters import COUNT, MS, repetitions
from emu.device.faults.registry import action
from emu.device.faults.rule import Rule


class Losable(Event[Result]):
    """An event that a rule can drop."""

    __slots__ = ()

    @action("the event of the point is lost")
    def drop(self, _rule: Rule) -> Any:
        """Drop the event."""
        return self.instead


class Delayable(Event[Result]):
    """An event that a rule can delay."""

    __slots__ = ()

    @action("the event of the point is delayed by ms", needs=[MS])
    def delay(self, rule: Rule) -> Any:
        """Perform the event after ``ms`` of the device's clock.

        Return the event's substitute at once. A reset of the function cancels the event.
        """
        self.keep()
        self.faults.delays.later(rule, self.go_on_late, self)
        return self.instead


class Repeatable(Event[Result]):
    """An event that a rule can repeat."""

    __slots__ = ()

    @action("the event of the point is repeated count times (default 1)", takes=[COUNT])
    def duplicate(self, rule: Rule) -> Any:
        """Perform the event, and then ``count`` times more (1 by default); return the last result.

        A ``count`` of 0 or less repeats nothing.
        """
        result = self.go_on()
        for _ in range(repetitions(rule)):
            result = self.go_on()
        return result


class Reorderable(Event[Result]):
    """An event that a rule can move behind the next one."""

    __slots__ = ()

    @action("the event is performed after the next event of the point")
    def reorder(self, rule: Rule) -> Any:
        """Perform the event after the next event of the point.

        Return the event's substitute at once. If no other one follows, the event waits until the
        rule is removed. A reset of the function cancels the event.
        """
        self.keep()
        self.faults.delays.behind_next(rule, self)
        return self.instead

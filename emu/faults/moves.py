"""Actions that apply to anything that is sent from one place to another.

A point uses those that fit as base classes of its events; a point that redefines a method gives
the action its own description.
"""

from __future__ import annotations

from typing import Any

from emu.faults.declare import action
from emu.faults.event import Event, Result
from emu.faults.parameters import COUNT, MS
from emu.faults.rule import Rule


class Losable(Event[Result]):
    """It may never come."""

    __slots__ = ()

    @action("it is lost")
    def drop(self, _rule: Rule) -> Any:
        """Nothing goes on."""
        return self.instead


class Delayable(Event[Result]):
    """It may come later."""

    __slots__ = ()

    @action("it comes so much later", needs=[MS])
    def delay(self, rule: Rule) -> Any:
        """Go on after ``ms`` of the device's time."""
        self.keep()
        self.faults.later(rule, self.go_on_late)
        return self.instead


class Repeatable(Event[Result]):
    """It may come more than once."""

    __slots__ = ()

    @action("it comes again, count times (1)", takes=[COUNT])
    def duplicate(self, rule: Rule) -> Any:
        """Go on, and ``count`` times more."""
        result = self.go_on()
        for _ in range(rule["count"] or 1):
            result = self.go_on()
        return result


class Reorderable(Event[Result]):
    """It may change places with the next one."""

    __slots__ = ()

    @action("it comes after the next one of the point")
    def reorder(self, _rule: Rule) -> Any:
        """Go on behind the next one."""
        self.keep()
        self.faults.behind_next(self)
        return self.instead

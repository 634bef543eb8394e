"""Actions that apply to anything that is sent from one place to another.

The events of a point have those that fit as base classes; one that overrides a method gives the
action its own description.
"""

from __future__ import annotations

from typing import Any

from emu.device.faults.event import Event, Result
from emu.device.faults.parameters import COUNT, MS
from emu.device.faults.registry import action
from emu.device.faults.rule import Rule


class Losable(Event[Result]):
    """A rule can lose it."""

    __slots__ = ()

    @action("it is lost")
    def drop(self, _rule: Rule) -> Any:
        """Do not go on."""
        return self.instead


class Delayable(Event[Result]):
    """A rule can delay it."""

    __slots__ = ()

    @action("it comes later, by ms", needs=[MS])
    def delay(self, rule: Rule) -> Any:
        """Go on after ``ms`` of the device's clock."""
        self.keep()
        self.faults.later(rule, self.go_on_late, self)
        return self.instead


class Repeatable(Event[Result]):
    """A rule can repeat it."""

    __slots__ = ()

    @action("it is repeated, count times (1)", takes=[COUNT])
    def duplicate(self, rule: Rule) -> Any:
        """Go on, and then ``count`` times more."""
        result = self.go_on()
        for _ in range(rule["count"] or 1):
            result = self.go_on()
        return result


class Reorderable(Event[Result]):
    """A rule can move it behind the next one."""

    __slots__ = ()

    @action("it comes after the next one of the point")
    def reorder(self, _rule: Rule) -> Any:
        """Go on after the next event of the point."""
        self.keep()
        self.faults.behind_next(self)
        return self.instead

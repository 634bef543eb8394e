"""The effects of rules on a device as a whole that have begun, and how each ends.

An effect ends after ``ms`` if the rule has it, when the rule is removed, or when the function is
reset, unless it is outside of the function; what it has changed is then restored.
:mod:`emu.device.faults.points.device` and ``subnet`` declare them.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.device.faults.event import RuleInjector
from emu.device.faults.rule import Rule
from emu.device.ports import Timer

Begin = Callable[["Effects", Rule], "Ending | None"]
Ending = Callable[[], object]
"""Undoes what an effect has done."""


class Lasting:
    """An ending of an effect outside of the function, which a reset does not undo."""

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __call__(self) -> None:
        """Undo what the effect has done."""
        self._undo()


class Effects:
    """The effects at one function."""

    def __init__(self, faults: RuleInjector) -> None:
        self.faults = faults
        self._endings: dict[str, list[Ending]] = {}
        self._timers: dict[Timer, bool] = {}
        """Whether each of them goes on when the function is reset."""
        self.is_gone = False
        """Whether the function is off the bus."""
        self.wanted_pages: int | None = None
        """How many pages the firmware waits for; it creates no object until it has them."""

    @property
    def is_any(self) -> bool:
        """Whether the device has to be watched although no rule is left."""
        return self.is_gone

    def lacks_pages(self) -> bool:
        """Return whether the firmware waits for pages; end the wait once the driver gave them."""
        pages = self.wanted_pages
        if pages is not None and len(self.faults.hca.fwpages) >= pages:
            self.wanted_pages = None
        return self.wanted_pages is not None

    def in_force(self, name: str) -> int:
        """How many effects of a rule have begun and not ended."""
        return len(self._endings.get(name, ()))

    @property
    def count(self) -> int:
        """How many effects have begun and not ended."""
        return sum(map(len, self._endings.values()))

    def begin(self, rule: Rule, effect: Begin) -> None:
        """Begin the effect of a rule that has fired."""
        ending = effect(self, rule)
        if ending is None:
            return
        self._endings.setdefault(rule.name, []).append(ending)
        if rule["ms"] is not None:
            is_lasting = isinstance(ending, Lasting)
            self.after(rule, lambda: self._over(rule.name, ending), is_lasting=is_lasting)

    def after(self, rule: Rule, call: Callable[[], None], *, is_lasting: bool = False) -> Ending:
        """Call after the rule's time, unless the function is reset before; returns what ends that.

        ``is_lasting``: a reset changes nothing about it.

        By the clock of the function, which lasts: one that is off the bus comes back after a reset.
        """

        def go() -> None:
            self._timers.pop(timer, None)
            call()

        timer = self.faults.function.clock.call_later(int((rule["ms"] or 0) * 1_000_000), go)
        self._timers[timer] = is_lasting
        return timer.cancel

    def end(self, rule: Rule) -> None:
        """The rule is removed: end its effects."""
        for ending in reversed(self._endings.pop(rule.name, [])):
            ending()

    def forget(self) -> None:
        """The function was reset, which has undone the effects on its registers.

        A function that is off the bus stays there.
        """
        self.wanted_pages = None
        if not self.is_gone:
            for endings in self._endings.values():
                endings[:] = [ending for ending in endings if isinstance(ending, Lasting)]
            for timer in [one for one, is_lasting in self._timers.items() if not is_lasting]:
                timer.cancel()
                del self._timers[timer]

    def _over(self, name: str, ending: Ending) -> None:
        endings = self._endings.get(name, [])
        if ending in endings:
            endings.remove(ending)
            self.faults.guarded(ending)

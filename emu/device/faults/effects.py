"""Effects of rules on a device as a whole: their start and their end.

An effect ends after ``ms`` if the rule has it, or when the rule is removed. A reset of the function
also ends it, unless the effect is outside of the function. The end of an effect undoes its change.
:mod:`emu.device.faults.points.device` and ``subnet`` declare effects.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.device.faults.event import NoEffectError, RuleInjector
from emu.device.faults.rule import Rule
from emu.device.ports import Timer

Begin = Callable[["Effects", Rule], "Ending | None"]
Ending = Callable[[], object]
"""Undoes an effect."""


MAX_STARTED = 10_000
"""Maximum number of effects in force at a function; further ones end at once."""


class Lasting:
    """An ending of an effect outside of the function, which a reset does not undo."""

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __call__(self) -> None:
        """Undo the effect."""
        self._undo()


class _Started:
    """An effect that has started, with the timer of its end if its time is limited."""

    __slots__ = ("cancel_timer", "ending")

    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        self.cancel_timer: Ending | None = None


class Effects:
    """The effects at one function."""

    def __init__(self, faults: RuleInjector) -> None:
        self.faults = faults
        self._started: dict[str, list[_Started]] = {}
        """Effects that have not ended, by the name of their rule."""
        self._timers: dict[Timer, bool] = {}
        """Whether each timer continues when the function is reset."""
        self.is_gone = False
        """Whether the function is off the bus."""
        self.wanted_pages: int | None = None
        """Number of pages that the firmware waits for; it creates no object until it has them."""

    @property
    def is_any(self) -> bool:
        """Whether an effect needs the device's points although no rule is left."""
        return self.is_gone

    def lacks_pages(self) -> bool:
        """Return whether the firmware waits for pages.

        End the wait once the driver has given them.
        """
        pages = self.wanted_pages
        if pages is not None and len(self.faults.hca.given_pages) >= pages:
            self.wanted_pages = None
        return self.wanted_pages is not None

    def in_force(self, name: str) -> int:
        """Return the number of effects of a rule that have started and not ended."""
        return len(self._started.get(name, ()))

    @property
    def count(self) -> int:
        """Number of effects that have started and not ended."""
        return sum(map(len, self._started.values()))

    def begin(self, rule: Rule, effect: Begin) -> None:
        """Start the effect of a rule that has fired; end it after the rule's ``ms``, if given.

        Without ``ms`` an effect lasts until the rule is removed or the function is reset. An effect
        without an ending is not recorded. Raises NoEffectError where the effect would change
        nothing, and for one above MAX_STARTED, which has ended then.
        """
        ending = effect(self, rule)
        if ending is None:
            return
        if self.count >= MAX_STARTED:
            ending()
            raise NoEffectError(f"{MAX_STARTED} effects are already in force")
        started = _Started(ending)
        self._started.setdefault(rule.name, []).append(started)
        if rule["ms"] is not None:
            started.cancel_timer = self.after(
                rule, lambda: self._over(rule.name, started), is_lasting=isinstance(ending, Lasting)
            )

    def after(self, rule: Rule, call: Callable[[], None], *, is_lasting: bool = False) -> Ending:
        """Call after the rule's ``ms``, unless the function is reset before; return the canceller.

        ``is_lasting``: a reset changes nothing about it. The timer uses the clock of the function,
        which outlives resets: a function that is off the bus returns after one.
        """

        def go() -> None:
            self._timers.pop(timer, None)
            call()

        timer = self.faults.function.clock.call_later(int((rule["ms"] or 0) * 1_000_000), go)
        self._timers[timer] = is_lasting

        def cancel() -> None:
            timer.cancel()
            self._timers.pop(timer, None)

        return cancel

    def end(self, rule: Rule) -> None:
        """End the effects of a rule that is removed, the newest first; cancel their timers."""
        for started in reversed(self._started.pop(rule.name, [])):
            if started.cancel_timer is not None:
                started.cancel_timer()
            started.ending()

    def forget(self) -> None:
        """Drop the effects that a reset of the function has undone, and cancel their timers.

        Effects outside of the function (``Lasting``) continue. A function that is off the bus stays
        off, with all its effects. The wait for pages ends in any case.
        """
        self.wanted_pages = None
        if not self.is_gone:
            for effects in self._started.values():
                effects[:] = [one for one in effects if isinstance(one.ending, Lasting)]
            for timer in [one for one, is_lasting in self._timers.items() if not is_lasting]:
                timer.cancel()
                del self._timers[timer]

    def _over(self, name: str, started: _Started) -> None:
        """End an effect whose time is over, unless it has ended; an exception is only logged."""
        effects = self._started.get(name, [])
        if started in effects:
            effects.remove(started)
            self.faults.guarded(started.ending)

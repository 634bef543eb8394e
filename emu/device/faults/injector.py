"""The rules that are loaded for one function, and how they decide about its events.

``hca.faults`` is None while there are no rules, so without a plan a point costs one attribute
test. With rules it is the function's :class:`Injector`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from emu.device.faults.decision import RuleState
from emu.device.faults.effects import Effects
from emu.device.faults.event import Event, NoEffectError
from emu.device.faults.moments import LOAD_POINT, POWER_ON_POINT
from emu.device.faults.plan import Plan
from emu.device.faults.record import Fired
from emu.device.faults.registry import EFFECTS, MOUNTS
from emu.device.faults.rule import Rule
from emu.device.faults.schema import POINTS
from emu.device.ports import DmaError, Timer
from emu.device.state.observers import UNREADABLE, ObserverErrors
from emu.device.state.points import FaultPoint, Result, Shown

if TYPE_CHECKING:
    from emu.device.function.function import Function
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

MAX_DELAYED = 10_000
"""How many events may be held back at a time; further ones are not delayed."""


class Injector:
    """Implements :class:`state.points.FaultInjector`: one function fails as its rules say."""

    def __init__(
        self, function: Function, index: int = 0, sink: Callable[[Fired], None] | None = None
    ) -> None:
        """``sink`` is given each fault that fires; ``index`` is the function's in the run."""
        self.function = function
        self.index = index
        self._sink = sink
        self.states: list[RuleState] = []
        self._by_point: dict[str, list[RuleState]] = {}
        self._held: Counter[str] = Counter()
        self._timers: dict[Timer, tuple[str, Event[Any] | None]] = {}
        """What is held back: its rule, and the event if it is one that ends with its objects."""
        self._behind: dict[str, list[Event[Any]]] = {}
        """Events that wait for the next one of their point."""
        self._to_come: list[tuple[int, Callable[[], None]]] = []
        """Calls for when the function has run so many commands."""
        self._is_inside = False
        self._is_timed = False
        self._errors = ObserverErrors("record of faults")
        self.effects = Effects(self)

    @property
    def hca(self) -> Hca:
        """The function's state between two resets."""
        return self.function.hca

    # -- rules

    def start(self, plan: Plan) -> None:
        """Load a plan before the driver starts; the function's power-on is then an event, too."""
        self.load(plan)
        self.show(POWER_ON_POINT, "start")

    def load(self, plan: Plan) -> None:
        """Replace all rules by those of a plan."""
        self.clear()
        self.add(plan.rule, plan.seed)

    def add(self, rules: Iterable[Rule], seed: int) -> None:
        """Add rules; each needs a name that no other rule has."""
        names = {state.rule.name for state in self.states}
        added = []
        for rule in rules:
            if rule.name in names:
                raise ValueError(f"there is a rule {rule.name!r} already")
            names.add(rule.name)
            if rule.applies_to(self.index):
                added.append(RuleState(rule, seed))
        self.states += added
        self._arm()

    def at(self, commands: int, call: Callable[[], None]) -> None:
        """Call when the function has run so many commands; now if it has."""
        self._to_come.append((commands, call))
        self._call_due()
        self._sort()

    def _call_due(self) -> None:
        count = self.function.commands
        due = [call for commands, call in self._to_come if commands <= count]
        self._to_come = [one for one in self._to_come if one[0] > count]
        for call in due:
            call()

    def remove(self, name: str) -> bool:
        """Remove a rule and end its effects; False when there is no rule of that name."""
        states = [state for state in self.states if state.rule.name == name]
        self.states = [state for state in self.states if state not in states]
        for state in states:
            self.effects.end(state.rule)
        self._sort()
        return bool(states)

    def clear(self) -> None:
        """Remove all rules."""
        for state in list(self.states):
            self.remove(state.rule.name)

    def follow(self) -> None:
        """A command has run: arm the rules that are now due, and remove those that end here."""
        if self._is_timed:
            count = self.function.commands
            self._call_due()
            for state in list(self.states):
                if state.rule.until is not None and state.rule.until <= count:
                    self.remove(state.rule.name)
            self._arm()

    def _arm(self) -> None:
        """Arm the rules that are now due; rules for the point ``rule`` fire at once."""
        count = self.function.commands
        new = [one for one in self.states if not one.is_armed and one.rule.after <= count]
        for state in new:
            state.is_armed = True
        self._sort()
        loaded = POINTS[LOAD_POINT.name].event(self)
        for state in new:
            if state.rule.point == LOAD_POINT.name and state.fires(loaded):
                self._strike(state, loaded)

    def _sort(self) -> None:
        self._by_point = {}
        for state in self.states:
            if state.is_armed:
                self._by_point.setdefault(state.rule.point, []).append(state)
        self._is_timed = bool(self._to_come) or any(
            not state.is_armed or state.rule.until is not None for state in self.states
        )
        self.attach()

    # -- the device

    def power_on(self, cause: str) -> None:
        """The function has a new Hca."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._held = Counter()
        self._behind = {}
        self.effects.forget()
        self.attach()
        if self.states:
            self.show(POWER_ON_POINT, cause)

    def forget_objects(self) -> None:
        """The function's objects are about to go: so do the events of theirs that are held back."""
        for timer, (name, event) in list(self._timers.items()):
            if event is not None:
                timer.cancel()
                del self._timers[timer]
                self._held[name] -= 1
        for point, waiting in self._behind.items():
            self._behind[point] = [event for event in waiting if not event.ends_with_objects]

    def attach(self) -> None:
        """Watch the points that rules are about, and no others."""
        is_wanted = self.states or self._to_come or self.effects.is_any
        self.hca.faults = self if is_wanted else None
        for names, stand in MOUNTS:
            stand(self, requested=not names.isdisjoint(self._by_point))

    @property
    def is_gone(self) -> bool:
        """Whether the function is off the bus."""
        return self.effects.is_gone

    def lacks_pages(self) -> bool:
        """Return whether the firmware creates no object because it waits for pages."""
        return self.effects.lacks_pages()

    @property
    def wants_packets(self) -> bool:
        """Whether a rule is about packets: messages inside the process then become packets."""
        return any(POINTS[name].is_of_packets for name in self._by_point)

    # -- listing

    def listing(self) -> list[dict[str, object]]:
        """Each rule as plain values: its name, point and action, and its counts."""
        return [
            {"name": state.rule.name, "point": state.rule.point, "action": state.rule.action}
            | {name: value for name, value in self.counts_of(state).items() if name != "function"}
            for state in self.states
        ]

    def counts_of(self, state: RuleState) -> dict[str, object]:
        """A rule's counts at this function, as plain values."""
        name = state.rule.name
        return {
            "function": self.index, "met": state.met, "fired": state.fired,
            "without_effect": state.without_effect, "why": state.why,
            "waits": not state.is_armed, "armed": state.is_armed and not state.is_spent,
            "held": self._held[name], "in_force": self.effects.in_force(name),
        }  # fmt: skip

    @property
    def held(self) -> int:
        """How many events are held back now."""
        return self._held.total()

    @property
    def in_force(self) -> int:
        """How many effects on the device have begun and not ended."""
        return self.effects.count

    # -- events

    def show(
        self, point: FaultPoint[Shown, Result], *shown: Shown.args, **named: Shown.kwargs
    ) -> Result:
        """Show what is about to happen at a point. It then happens, unless a rule changes that.

        Raises what the event or the rule's action raises.
        """
        declared = POINTS.get(point.name)
        if declared is None:
            raise LookupError(
                f"{point.name} is not declared as a fault point in emu/device/faults/points"
            )
        event = declared.event(self, *shown, **named)
        behind = self._behind.pop(point.name, ())
        state = self._verdict(event)
        result = event.go_on() if state is None else self._act(state, event)
        for other in behind:
            other.go_on_late()
        return cast(Result, result)

    def _act(self, state: RuleState, event: Event[Any]) -> Any:
        """What a rule makes of an event; the event itself where that changes nothing."""
        actions = POINTS[event.point].actions
        try:
            return actions[state.rule.action].carry_out(event, state.rule)
        except NoEffectError as error:
            self._take_back(state, event, str(error))
        return event.go_on()

    def behind_next(self, event: Event[Any]) -> None:
        """Let an event go on after the next event of its point."""
        self._behind.setdefault(event.point, []).append(event)

    def _verdict(self, event: Event[Any]) -> RuleState | None:
        """The rule that decides about an event, if any.

        Effects on the device begin here; events that they cause are not shown to rules.
        """
        if self._is_inside:
            return None
        verdict: RuleState | None = None
        for state in self._by_point.get(event.point, ()):
            is_effect = state.rule.action in EFFECTS
            if state.fires(event, is_settled=verdict is not None and not is_effect):
                self._strike(state, event)
                if not is_effect:
                    verdict = state
        return verdict

    def _strike(self, state: RuleState, event: Event[Any]) -> None:
        """A rule has fired: begin its effect, if it has one, and tell."""
        effect = EFFECTS.get(state.rule.action)
        if effect is None:
            self._tell(state, event)
            return
        # Events that it causes are not shown to rules.
        was_inside, self._is_inside = self._is_inside, True
        try:
            self.effects.begin(state.rule, effect.begin)
        except NoEffectError as error:
            self._take_back(state, event, str(error))
        else:
            self._tell(state, event)
        finally:
            self._is_inside = was_inside

    def _tell(self, state: RuleState, event: Event[Any], why: str = "") -> None:
        """Note what has fired or, with ``why``, that it has had no effect."""
        rule, summary = state.rule, self._summary(event)
        if why:
            log.warning("fault %s: %s has no effect: %s", rule.name, rule.action, why)
        else:
            log.info("fault %s: %s at %s %s", rule.name, rule.action, rule.point, summary)
        if self._sink is None:
            return
        fired = Fired(self.index, rule.name, state.met, rule.point, rule.action, summary, why)
        try:
            self._sink(fired)
        except Exception:
            self._errors.note("record")

    def _summary(self, event: Event[Any]) -> dict[str, Any]:
        """Return the record's fields of an event, as far as they can be read."""
        try:
            return event.summary()
        except Exception:
            self._errors.note(event.point)
            return {"error": UNREADABLE}

    def _take_back(self, state: RuleState, event: Event[Any], why: str) -> None:
        state.take_back(why)
        self._tell(state, event, why)

    def later(
        self, rule: Rule, call: Callable[[], object], event: Event[Any], ms: float | None = None
    ) -> None:
        """Call back after ``ms``, or after the rule's time if that is None, by the device's clock.

        Does nothing if the function is reset before.
        """
        held, ms = self._held, (rule["ms"] or 0) if ms is None else ms
        if held.total() >= MAX_DELAYED:
            log.warning("%d events are held back already: this one is not delayed", held.total())
            ms = 0

        def go() -> None:
            held[rule.name] -= 1
            del self._timers[timer]
            self.guarded(call)

        held[rule.name] += 1
        timer = self.hca.port_clock.call_later(int(ms * 1_000_000), go)
        self._timers[timer] = rule.name, event if event.ends_with_objects else None

    def guarded(self, call: Callable[[], object]) -> None:
        """Run a delayed action; an exception in it is logged and does not end the loop."""
        try:
            call()
        except DmaError as error:
            log.warning("%s: a delayed fault had no effect: %s", self.function.model.name, error)
        except Exception:
            log.exception("%s: internal error in a delayed fault", self.function.model.name)
            self.hca.internal_errors += 1

"""The rules that are loaded for one function, and their decisions about its events.

``hca.probes.faults`` is None while no rule is loaded, so without a plan a point costs one test.
With rules it is the function's :class:`Injector`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from emu.device.faults.decision import RuleState
from emu.device.faults.delays import Delays
from emu.device.faults.effects import Effects
from emu.device.faults.event import LOAD_POINT, POWER_ON_POINT, Event, NoEffectError
from emu.device.faults.plan import Plan
from emu.device.faults.record import Fired
from emu.device.faults.registry import EFFECTS, MOUNTS
from emu.device.faults.rule import Rule
from emu.device.faults.schema import POINTS
from emu.device.ports import DmaError
from emu.device.state.observers import UNREADABLE, ObserverErrors
from emu.device.state.points import FaultPoint, Result, Shown

if TYPE_CHECKING:
    from emu.device.function.function import Function
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

ToCome = tuple[int, str]
"""Number of commands after which a call is due, and its subject."""


class Injector:
    """Implements :class:`state.points.FaultInjector`: one function fails by its rules."""

    def __init__(
        self, function: Function, index: int = 0, sink: Callable[[Fired], None] | None = None
    ) -> None:
        """Start without rules; ``sink`` receives each fault that fires.

        ``index`` is the function's index in the run.
        """
        self.function = function
        self.index = index
        self._sink = sink
        self.states: list[RuleState] = []
        self._by_point: dict[str, list[RuleState]] = {}
        self.delays = Delays(lambda: self.hca.port_clock, self.guarded, self._on_empty_lines)
        self.to_come: dict[ToCome, Callable[[], None]] = {}
        """Calls that are not due yet, in order; :meth:`at` adds them."""
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
        """Load a plan before the driver starts; the function's power-on is then also an event."""
        self.load(plan)
        self.show(POWER_ON_POINT, "start")

    def load(self, plan: Plan) -> None:
        """Replace all rules by those of a plan, and end the effects of the former ones.

        Only rules that apply to this function are kept; the plan's links are not used here.
        """
        self.clear()
        self.add(plan.rule, plan.seed)

    def add(self, rules: Iterable[Rule], seed: int) -> None:
        """Add the rules that apply to this function, and arm those whose ``after`` is reached.

        Rules of the point ``load`` fire at once. Raises ValueError, and adds none, for a name that
        another rule has.
        """
        names = {state.rule.name for state in self.states}
        added = []
        for rule in rules:
            if rule.name in names:
                raise ValueError(f"a rule {rule.name!r} already exists")
            names.add(rule.name)
            if rule.applies_to(self.index):
                added.append(RuleState(rule, seed))
        self.states += added
        self._arm()

    def at(self, commands: int, subject: str, call: Callable[[], None]) -> None:
        """Make ``call`` when the function has run ``commands`` commands; now if it already has.

        Forget an earlier call about the same subject that is due after the same command.
        """
        if commands <= self.function.commands:
            call()
            return
        self.to_come.pop((commands, subject), None)
        self.to_come[commands, subject] = call
        self._index_by_point()

    def _call_due(self) -> None:
        """Make the calls whose number of commands is reached, and forget them."""
        count = self.function.commands
        for due in [one for one in self.to_come if one[0] <= count]:
            self.to_come.pop(due)()

    def remove(self, name: str) -> bool:
        """Remove a rule and end its effects; return False when no rule has that name.

        Delayed events of the rule still happen, reordered ones in the next round.
        """
        states = [state for state in self.states if state.rule.name == name]
        self.states = [state for state in self.states if state not in states]
        for state in states:
            self.effects.end(state.rule)
            self.delays.perform_waiting(state.rule)
        self._index_by_point()
        return bool(states)

    def clear(self) -> None:
        """Remove all rules and end their effects; delayed events still happen."""
        for state in list(self.states):
            self.remove(state.rule.name)

    def follow(self) -> None:
        """Make due calls, remove rules whose ``until`` and arm rules whose ``after`` is reached.

        Called after each command; the counts are of the function's commands.
        """
        if self._is_timed:
            count = self.function.commands
            self._call_due()
            for state in list(self.states):
                if state.rule.until is not None and state.rule.until <= count:
                    self.remove(state.rule.name)
            self._arm()

    def _arm(self) -> None:
        """Arm the rules that are now due; rules for the point ``load`` fire at once."""
        count = self.function.commands
        new = [one for one in self.states if not one.is_armed and one.rule.after <= count]
        for state in new:
            state.is_armed = True
        self._index_by_point()
        loaded = POINTS[LOAD_POINT.name].event(self)
        for state in new:
            if state.rule.point == LOAD_POINT.name and state.fires(loaded):
                self._fire(state, loaded)

    def _index_by_point(self) -> None:
        """Index the armed rules by point, and enable exactly the points that they are about."""
        self._by_point = {}
        for state in self.states:
            if state.is_armed:
                self._by_point.setdefault(state.rule.point, []).append(state)
        self._is_timed = bool(self.to_come) or any(
            not state.is_armed or state.rule.until is not None for state in self.states
        )
        self.attach()

    # -- the device

    def power_on(self, cause: str) -> None:
        """Attach to the new HCA of the function, and show its power-on to the rules.

        All delayed events are cancelled, effects end unless they outlive a reset. Without rules no
        event is shown.
        """
        self.delays.clear()
        self.effects.forget()
        self.attach()
        if self.states:
            self.show(POWER_ON_POINT, cause)

    def forget_objects(self) -> None:
        """Cancel the delayed and reordered events of objects, before all objects are dropped.

        Events with ``ends_with_objects`` False, such as packets, stay.
        """
        self.delays.forget_objects()
        self._on_empty_lines()

    def attach(self) -> None:
        """Set the HCA's ``faults``, and wrap exactly the ports of the armed rules' points.

        ``faults`` is None without rules, due calls, events that wait in line and a function off the
        bus. All views of guest memory are dropped, by ``GuestMemory.watch``, so that rules see each
        access and CQE.
        """
        is_wanted = self.states or self.to_come or self.effects.is_any or self.delays.is_in_line
        self.hca.probes.faults = self if is_wanted else None
        for names, stand in MOUNTS:
            stand(self, requested=not names.isdisjoint(self._by_point))

    def _on_empty_lines(self) -> None:
        """Disable the points if only events in line needed them."""
        if not self.states:
            self.attach()

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
        """Return each rule as plain values: its name, point, action, and its counts."""
        return [
            {"name": state.rule.name, "point": state.rule.point, "action": state.rule.action}
            | {name: value for name, value in self.counts_of(state).items() if name != "function"}
            for state in self.states
        ]

    def counts_of(self, state: RuleState) -> dict[str, object]:
        """Return a rule's counts at this function as plain values, with ``function`` as its index.

        ``armed`` is False for a rule that waits for ``after`` or has fired ``times`` times.
        ``held`` is the rule's share of :attr:`held`.
        """
        name = state.rule.name
        return {
            "function": self.index, "met": state.met, "fired": state.fired,
            "without_effect": state.without_effect, "why": state.why,
            "waits": not state.is_armed, "armed": state.is_armed and not state.is_spent,
            "held": self.delays.held[name], "in_force": self.effects.in_force(name),
        }  # fmt: skip

    @property
    def held(self) -> int:
        """Number of reordered events that wait, and of delayed ones whose time has not come.

        Events in line behind a delayed one are not counted.
        """
        return self.delays.held.total()

    @property
    def in_force(self) -> int:
        """Number of effects on the device that have started and not ended."""
        return self.effects.count

    # -- events

    def show(
        self, point: FaultPoint[Shown, Result], *shown: Shown.args, **named: Shown.kwargs
    ) -> Result:
        """Show an event to the rules at a point, and perform it as they decide; return its result.

        Without a deciding rule the event happens unchanged. Reordered events of the point follow,
        even if it raises; their own exceptions are only logged. Raises LookupError for an
        undeclared point, and the exceptions of the event or the action.
        """
        declared = POINTS.get(point.name)
        if declared is None:
            raise LookupError(
                f"{point.name} is not declared as a fault point in emu/device/faults/points"
            )
        event = declared.event(self, *shown, **named)
        behind = self.delays.take_behind(point.name)
        state = self._verdict(event)
        try:
            result = event.go_on() if state is None else self._act(state, event)
        finally:
            behind()
        return cast(Result, result)

    def _act(self, state: RuleState, event: Event[Any]) -> Any:
        """Perform a rule's action on an event; return the action's result.

        An action without effect (NoEffectError) is recorded, and the event happens unchanged.
        """
        actions = POINTS[event.point].actions
        try:
            return actions[state.rule.action].carry_out(event, state.rule)
        except NoEffectError as error:
            self._count_without_effect(state, event, str(error))
        return event.go_on()

    def _verdict(self, event: Event[Any]) -> RuleState | None:
        """Return the first rule, in their order, that fires on an event; None without one.

        Effects on the device start here; further rules only count the event. Events that an effect
        causes are not shown to rules.
        """
        if self._is_inside:
            return None
        verdict: RuleState | None = None
        for state in self._by_point.get(event.point, ()):
            is_effect = state.rule.action in EFFECTS
            if state.fires(event, is_settled=verdict is not None and not is_effect):
                self._fire(state, event)
                if not is_effect:
                    verdict = state
        return verdict

    def _fire(self, state: RuleState, event: Event[Any]) -> None:
        """Start the effect of a rule that has fired, if it has one; log and record the firing.

        An effect that would change nothing is recorded as without effect.
        """
        effect = EFFECTS.get(state.rule.action)
        if effect is None:
            self._report(state, event)
            return
        # Events that the effect causes are not shown to rules.
        was_inside, self._is_inside = self._is_inside, True
        try:
            self.effects.begin(state.rule, effect.begin)
        except NoEffectError as error:
            self._count_without_effect(state, event, str(error))
        else:
            self._report(state, event)
        finally:
            self._is_inside = was_inside

    def _report(self, state: RuleState, event: Event[Any], why: str = "") -> None:
        """Log a firing, or with ``why`` that it had no effect, and pass it to the sink.

        An exception of the sink is counted and logged; the device continues.
        """
        rule, summary = state.rule, self._summary(event)
        if why:
            log.warning("fault %s: %s has no effect: %s", rule.name, rule.action, why)
        else:
            log.info("fault %s: %s at %s %s", rule.name, rule.action, rule.point, summary)
        if self._sink is None:
            return
        fired = Fired(
            self.index, rule.name, state.met, rule.point, rule.action, summary, why,
            packet=event.packet,
        )  # fmt: skip
        try:
            self._sink(fired)
        except Exception:
            self._errors.note("record")

    def _summary(self, event: Event[Any]) -> dict[str, Any]:
        """Return the recorded fields of an event; ``{"error": ...}`` if they cannot be read."""
        try:
            return event.summary()
        except Exception:
            self._errors.note(event.point)
            return {"error": UNREADABLE}

    def _count_without_effect(self, state: RuleState, event: Event[Any], why: str) -> None:
        state.count_without_effect(why)
        self._report(state, event, why)

    def guarded(self, call: Callable[[], object]) -> None:
        """Run a delayed action; an exception in it is logged and does not propagate.

        A DmaError is a warning; any other exception counts as an internal error of the function.
        """
        try:
            call()
        except DmaError as error:
            log.warning("%s: a delayed fault had no effect: %s", self.function.model.name, error)
        except Exception:
            log.exception("%s: internal error in a delayed fault", self.function.model.name)
            self.hca.health.internal_errors += 1

"""The fault points of a function as a whole, and effects on it: health, link, bus, pages, ...

An effect is possible at every point unless it names some; the event that triggers it still happens.
Each function starts an effect and returns its ending.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field as Bounds
from pydantic import StrictBool, StrictStr

from emu.device.adapter.board import UNITS_PER_DEGREE
from emu.device.engine import lifecycle
from emu.device.engine.events import board, page_request
from emu.device.engine.events import eq as eq_engine
from emu.device.faults.effects import Effects, Ending
from emu.device.faults.enum_names import number_of
from emu.device.faults.event import (
    LOAD_POINT,
    POWER_ON_POINT,
    Event,
    EventField,
    NoEffectError,
    RuleInjector,
    field_of,
    set_fields,
)
from emu.device.faults.parameters import (
    COUNT,
    DATA,
    EVENT_DATA,
    MS,
    new_data,
    number,
    one_of,
    repetitions,
    set_in,
)
from emu.device.faults.registry import Parameter, Problem, effect, point
from emu.device.faults.rule import Rule
from emu.device.pci import Correctable, Uncorrectable
from emu.device.trace.decode import event_layout
from layouts.enums.eqe import EventType
from layouts.function.caps import cmd_hca_cap
from layouts.function.iseg import init_seg

log = logging.getLogger(__name__)

_EVENT_BYTES = 28
_SEVERITY_VALID = 1


@point(LOAD_POINT, "the rule is loaded (once)")
class RuleLoaded(Event[None]):
    """A rule has been loaded and is armed."""

    __slots__ = ()

    def go_on(self) -> None:
        """Do nothing: the rule is loaded."""


@point(
    POWER_ON_POINT, "the function is powered on or reset",
    EventField(
        "cause", ("start", "reset", "flr", "vf_disable", "bus", "firmware"), is_recorded=True,
    ),
)  # fmt: skip
class PowerOn(Event[None]):
    """The function is in its power-on state."""

    __slots__ = ("cause",)

    def __init__(self, faults: RuleInjector, cause: str) -> None:
        super().__init__(faults)
        self.cause = cause

    def go_on(self) -> None:
        """Do nothing: the function has power."""


def _small(name: str, limit: int) -> Parameter:
    return Parameter(name, Annotated[int, Bounds(strict=True, ge=0, le=limit)])


def _flag(name: str) -> Parameter:
    return Parameter(name, StrictBool)


def _error(value: object, _rule: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a mistake for a name that is no error of the AER capability."""
    names = [*Correctable.__members__, *Uncorrectable.__members__]
    if value not in names:
        yield "error", f"no error {value!r}; there are {', '.join(names)}"


@effect(
    "the health buffer shows a syndrome; with fatal the buffer requests a reset; with stalled the"
    " health counter stops",
    takes=[
        number("syndrome", 8, "a syndrome of the health buffer"), _flag("fatal"),
        _small("severity", 7), _flag("stalled"), MS,
    ],
)  # fmt: skip
def health(effects: Effects, rule: Rule) -> Ending:
    """Change the health buffer's syndrome, fatal flag and severity; return the ending.

    ``stalled`` stops the health counter. The ending restores all values. Raises NoEffectError where
    neither a value nor the counter changes.
    """
    bar0 = effects.faults.function.bar0
    values: dict[str, object] = {}
    if rule["syndrome"] is not None:
        values["health.synd"] = int(rule["syndrome"])
    if rule["fatal"] is not None:
        values["health.rfr_severity.rfr"] = int(rule["fatal"])
    if rule["severity"] is not None:
        values["health.rfr_severity.severity"] = rule["severity"]
        values["health.rfr_severity.valid"] = _SEVERITY_VALID
    was_stalled = bar0.is_stalled
    if not values and (was_stalled or not rule["stalled"]):
        raise NoEffectError("the health buffer is unchanged")
    restore = _assign(bar0.segment, values) if values else lambda: None
    bar0.is_stalled = bool(rule["stalled"]) or was_stalled

    def end() -> None:
        restore()
        bar0.is_stalled = was_stalled

    return end


@effect(
    "fields of the initialization segment are set to the values in set",
    needs=[set_in(init_seg)], takes=[MS],
)  # fmt: skip
def registers(effects: Effects, rule: Rule) -> Ending:
    """Change fields of the initialization segment; return the ending, which restores them.

    Raises NoEffectError if no field takes its value; other fields that do not are logged.
    """
    return _assign(effects.faults.function.bar0.segment, rule["set"])


def _assign(segment: object, values: Mapping[str, object]) -> Ending:
    """Set fields of the segment; return a call that restores their former values.

    Raises NoEffectError if no field takes its value.
    """
    before = {name: field_of(segment, name) for name in values}
    refused = set_fields(segment, values)
    if len(refused) == len(values):
        raise NoEffectError(f"no register {', '.join(values)} takes the value")
    for name in refused:
        log.warning("register %s cannot hold %r", name, values[name])

    def restore() -> None:
        set_fields(segment, before)

    return restore


@effect("the link goes down (or up), for ms or permanently", takes=[_flag("up"), MS])
def link(effects: Effects, rule: Rule) -> Ending:
    """Disconnect the cable, or with ``up`` connect it; return the ending, which reverts this.

    The ending does nothing after a reset of the function. Raises NoEffectError if the cable is in
    that state already.
    """
    faults, up = effects.faults, bool(rule["up"])
    hca, restarts = faults.hca, faults.function.restarts
    if hca.port.has_cable == up:
        raise NoEffectError(f"the link is {'up' if up else 'down'} already")
    lifecycle.set_link(hca, up=up)

    def end() -> None:
        if faults.function.restarts == restarts:
            lifecycle.set_link(faults.hca, up=not up)

    return end


@effect(
    "the function is off the bus: reads return all-ones, writes and doorbells are lost", takes=[MS]
)
def gone(effects: Effects, _rule: Rule) -> Ending:
    """Take the function off the bus; return the ending, which puts it back with restarted firmware.

    Reads return all-ones then, writes and doorbells are lost. Raises NoEffectError if the function
    is off the bus already.
    """
    if effects.is_gone:
        raise NoEffectError("the function is off the bus already")
    effects.is_gone = True

    def back() -> None:
        """Put the function back on the bus with restarted firmware.

        The settings of the bus are kept.
        """
        effects.is_gone = False
        effects.faults.function.restart("bus")
        effects.faults.attach()

    return back


@effect(
    "the firmware restarts, after ms: only configuration space is kept, and the"
    " interface is disabled until the driver loads",
    takes=[MS],
)
def restart(effects: Effects, rule: Rule) -> Ending:
    """Restart the firmware after the rule's ``ms`` (0 by default); return the canceller.

    Only configuration space is kept.
    """
    faults = effects.faults
    return effects.after(rule, lambda: faults.guarded(lambda: faults.function.restart("firmware")))


@effect(
    "a spurious event with a type, and data from set or data; without an event queue for the type,"
    " the queue of CMD events receives the event",
    needs=[one_of("event", EventType)], takes=[
        _small("sub_type", 255),
        new_data(lambda rule: rule.get("event")),
        DATA,
        COUNT,
    ],
)  # fmt: skip
def event(effects: Effects, rule: Rule) -> None:
    """Post ``count`` spurious EQEs (1 by default) to the EQ of the type, or of CMD events.

    Raises NoEffectError without either EQ, for no EQEs, and if the first EQE does not fit. Later
    ones that do not fit are logged.
    """
    if not (count := repetitions(rule)):
        raise NoEffectError("count allows no events")
    kind = EventType(number_of(rule["event"], EventType))
    sub_type = rule["sub_type"] or 0
    given = bytes.fromhex(rule["data"] or "")
    data = bytearray(given.ljust(_EVENT_BYTES, b"\0")[:_EVENT_BYTES])
    layout = event_layout(kind, sub_type)
    if layout is not None:
        names = {
            name.removeprefix(EVENT_DATA): value for name, value in (rule["set"] or {}).items()
        }
        set_fields(layout.view(data), names)
    hca = effects.faults.hca
    eq = hca.events.subscribers.get(kind) or hca.events.subscribers.get(EventType.CMD)
    if eq is None:
        raise NoEffectError(f"no event queue for {kind.name}: its driver is not up")
    for posted in range(count):
        if not eq_engine.post(hca.events, eq, kind, sub_type, data):
            if not posted:
                raise NoEffectError(f"the event queue takes no {kind.name}")
            log.warning("fault %s: only %d of %d events", rule.name, posted, count)
            return


@effect("the chip has this temperature in degrees Celsius; drivers are warned above its limit",
    needs=[_small("celsius", 250)], takes=[MS],
)  # fmt: skip
def temperature(effects: Effects, rule: Rule) -> Ending:
    """Set the temperature of the board's chip; return the ending, which restores the former one.

    A temperature above the limit raises TEMP_WARN_EVENT at each function with temp_warn_event.
    """
    hca = effects.faults.hca
    before = hca.adapter.board.asic.temperature
    board.warm(hca.adapter, rule["celsius"] * UNITS_PER_DEGREE)
    return lambda: board.warm(effects.faults.hca.adapter, before)


@effect("a spurious interrupt is raised", needs=[_small("vector", 63)], takes=[COUNT])
def interrupt(effects: Effects, rule: Rule) -> None:
    """Raise a vector ``count`` times (1 by default), without an event.

    Raises NoEffectError for a vector that the function lacks, and for no interrupts.
    """
    if not (count := repetitions(rule)):
        raise NoEffectError("count allows no interrupts")
    for _ in range(count):
        try:
            effects.faults.function.interrupts.trigger(rule["vector"])
        except IndexError:
            raise NoEffectError(f"the function has no vector {rule['vector']}") from None


@effect(
    "the firmware requests count pages (negative: returns pages); with starve no object is created"
    " until the driver has provided them",
    needs=[COUNT], takes=[_flag("starve")],
)  # fmt: skip
def pages(effects: Effects, rule: Rule) -> Ending:
    """Raise PAGE_REQUEST for ``count`` pages, or for the return of pages if negative.

    Pages of a virtual function are requested at its physical function.
    With ``starve`` create commands fail (NO_RES_ERR) until the driver has given the pages; the
    ending ends that. Otherwise raises NoEffectError without an EQ for the event.
    """
    hca, count = effects.faults.hca, rule["count"]
    is_asked = page_request.request(hca.vhca, count)
    if rule["starve"]:
        effects.wanted_pages = len(hca.given_pages) + max(count, 0)
    elif not is_asked:
        raise NoEffectError("no event queue for PAGE_REQUEST: its driver is not up")

    def end() -> None:
        effects.wanted_pages = None

    return end


@effect(
    "capabilities are lowered to the values in set; the driver reads them at load",
    needs=[set_in(cmd_hca_cap)], at=[LOAD_POINT, POWER_ON_POINT],
)  # fmt: skip
def capabilities(effects: Effects, rule: Rule) -> Ending:
    """Lower general capabilities in MAX and CUR; return the ending, which restores them.

    Raises NoEffectError if no given value is below the present one.
    """
    caps = effects.faults.hca.caps
    before = caps.lower(rule["set"])
    if not before:
        raise NoEffectError(f"no capability of {', '.join(rule['set'])} is above its value")
    return lambda: caps.restore(before)


@effect(
    "the Advanced Error Reporting capability records an error; QEMU forwards no error message to"
    " the guest",
    needs=[Parameter("error", StrictStr, _error)],
)
def aer(effects: Effects, rule: Rule) -> None:
    """Set an error's status bit in the AER capability; permanent until the guest clears it.

    QEMU sends no error message to the guest.
    """
    name = rule["error"]
    is_correctable = name in Correctable.__members__
    bit = Correctable[name] if is_correctable else Uncorrectable[name]
    config = effects.faults.function.config
    config.report_error(correctable=is_correctable, status_bit=bit)

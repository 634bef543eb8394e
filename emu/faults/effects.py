"""What a rule does to the device as a whole: health, link, bus, pages, capabilities.

An effect ends after ``ms`` where the rule has it, when the rule is taken away, or when the function
is reset; what it has changed is then as before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from emu.faults.event import field_of, set_fields
from emu.faults.names import number_of
from emu.faults.plan import Rule
from emu.faults.vocabulary import Action
from emu.pci import Correctable, Uncorrectable
from emu.trace.decode import event_layout
from layouts.enums import EventType
from layouts.eqe import eqe_page_req

if TYPE_CHECKING:
    from emu.faults.injector import Injector

log = logging.getLogger(__name__)

_EVENT_BYTES = 28
_SEVERITY_VALID = 1


class Effects:
    """The effects at one function, and how to end each."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults
        self._endings: dict[str, list[Callable[[], None]]] = {}
        self.is_gone = False
        """Whether the function is off the bus."""
        self._wanted_pages: int | None = None

    @property
    def is_any(self) -> bool:
        """Whether the device still has to be asked although no rule is left."""
        return self.is_gone

    @property
    def is_starving(self) -> bool:
        """Whether the firmware waits for pages before it creates anything."""
        wanted = self._wanted_pages
        if wanted is not None and len(self._faults.hca.fwpages) >= wanted:
            self._wanted_pages = None
        return self._wanted_pages is not None

    def in_force(self, name: str) -> int:
        """How many effects of a rule have begun and not ended."""
        return len(self._endings.get(name, ()))

    @property
    def count(self) -> int:
        """How many effects have begun and not ended."""
        return sum(map(len, self._endings.values()))

    def apply(self, rule: Rule) -> None:
        """Begin the effect of a rule that has fired."""
        ending = _BEGIN[rule.action](self, rule)
        if ending is None:
            return
        self._endings.setdefault(rule.name, []).append(ending)
        if rule.ms is not None:
            self._faults.hca.clock.call_later(
                int(rule.ms * 1_000_000), lambda: self._over(rule.name, ending)
            )

    def end(self, rule: Rule) -> None:
        """The rule goes: so does what it has begun."""
        for ending in reversed(self._endings.pop(rule.name, [])):
            ending()

    def forget(self) -> None:
        """The function was reset; what lay in its registers has gone with them.

        A function that is off the bus stays there.
        """
        self._wanted_pages = None
        if not self.is_gone:
            self._endings.clear()

    def _over(self, name: str, ending: Callable[[], None]) -> None:
        endings = self._endings.get(name, [])
        if ending in endings:
            endings.remove(ending)
            self._faults.guarded(ending)

    # -- one for each action: what ends it

    def _health(self, rule: Rule) -> Callable[[], None]:
        bar0 = self._faults.function.bar0
        values: dict[str, Any] = {}
        if rule.syndrome is not None:
            values["health.synd"] = int(rule.syndrome)
        if rule.fatal is not None:
            values["health.rfr_severity.rfr"] = int(rule.fatal)
        if rule.severity is not None:
            values["health.rfr_severity.severity"] = rule.severity
            values["health.rfr_severity.valid"] = _SEVERITY_VALID
        restore = self._assign(values)
        was_stalled = bar0.is_stalled
        bar0.is_stalled = bool(rule.stalled) or was_stalled

        def end() -> None:
            restore()
            bar0.is_stalled = was_stalled

        return end

    def _registers(self, rule: Rule) -> Callable[[], None]:
        return self._assign(rule.set or {})

    def _assign(self, values: Mapping[str, Any]) -> Callable[[], None]:
        segment = self._faults.function.bar0.segment
        before = {name: field_of(segment, name) for name in values}
        for name in set_fields(segment, values):
            log.warning("register %s does not take %r", name, values[name])

        def restore() -> None:
            set_fields(segment, before)

        return restore

    def _link(self, rule: Rule) -> Callable[[], None]:
        hca, up = self._faults.hca, bool(rule.up)
        hca.set_link(up=up)

        def end() -> None:
            if self._faults.hca is hca:
                hca.set_link(up=not up)

        return end

    def _gone(self, _rule: Rule) -> Callable[[], None]:
        self.is_gone = True

        def back() -> None:
            """The firmware has started anew; the bus's settings are as they were."""
            self.is_gone = False
            self._faults.function.restart("bus")
            self._faults.attach()

        return back

    def _restart(self, rule: Rule) -> Callable[[], None]:
        hca, function = self._faults.hca, self._faults.function

        def go() -> None:
            if self._faults.hca is hca:
                self._faults.guarded(lambda: function.restart("firmware"))

        return hca.clock.call_later(int((rule.ms or 0) * 1_000_000), go).cancel

    def _event(self, rule: Rule) -> None:
        event = EventType(number_of(rule.event or 0, EventType))
        sub_type = rule.sub_type or 0
        data = bytearray(bytes.fromhex(rule.data or "").ljust(_EVENT_BYTES, b"\0")[:_EVENT_BYTES])
        layout = event_layout(event, sub_type)
        if layout is not None:
            names = {name.removeprefix("data."): value for name, value in (rule.set or {}).items()}
            set_fields(layout.view(data), names)
        for _ in range(max(rule.count or 1, 0)):
            if not self._faults.hca.raise_event(event, data, sub_type):
                log.warning("fault %s: no EQ takes %s", rule.name, event.name)
                return

    def _interrupt(self, rule: Rule) -> None:
        for _ in range(max(rule.count or 1, 0)):
            self._faults.function.interrupts.trigger(rule.vector or 0)

    def _pages(self, rule: Rule) -> Callable[[], None]:
        hca, count = self._faults.hca, rule.count or 0
        if rule.starve:
            self._wanted_pages = len(hca.fwpages) + max(count, 0)
        data = eqe_page_req.new(num_pages=count & 0xFFFFFFFF)
        hca.raise_event(EventType.PAGE_REQUEST, bytes(data))

        def end() -> None:
            self._wanted_pages = None

        return end

    def _capabilities(self, rule: Rule) -> Callable[[], None]:
        caps = self._faults.hca.caps
        before = caps.lower(rule.set or {})
        return lambda: caps.restore(before)

    def _aer(self, rule: Rule) -> None:
        name = rule.error or ""
        is_correctable = name in Correctable.__members__
        bit = Correctable[name] if is_correctable else Uncorrectable[name]
        config = self._faults.function.config
        config.report_error(correctable=is_correctable, status_bit=bit)


_BEGIN: Mapping[Action, Callable[[Effects, Rule], Callable[[], None] | None]] = {
    Action.HEALTH: Effects._health,
    Action.REGISTERS: Effects._registers,
    Action.LINK: Effects._link,
    Action.GONE: Effects._gone,
    Action.RESTART: Effects._restart,
    Action.EVENT: Effects._event,
    Action.INTERRUPT: Effects._interrupt,
    Action.PAGES: Effects._pages,
    Action.CAPABILITIES: Effects._capabilities,
    Action.AER: Effects._aer,
}

"""The way of a packet through entries that software has written, from a table's first one on.

An entry that a packet matches leads to a table, in which a hash of the packet finds the next entry;
one that it does not match leads to another entry. The way ends at the address of an object: what
has been done until then is told as what one entry of a table of firmware's does. Entries are what a
guest has written: each address is looked up, a way is bounded, and what makes no sense is a drop.

Source: core/steering/dr_ste.c, dr_rule.c, dr_action.c.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from emu.device.engine.eth.ste.actions import Meter, Planner
from emu.device.engine.eth.ste.definers import Selection
from emu.device.engine.eth.ste.entry import BadEntryError, Ste, decoded, hash_index
from emu.device.engine.eth.steering.colors import marks_of
from emu.device.engine.eth.steering.fields import source
from emu.device.engine.eth.steering.match_field import Part
from emu.device.engine.eth.steering.rewrite import marked, rewrite
from emu.device.objects.eth.flow import (
    FlowTable,
    FteAction,
    FteVerdict,
    Sampler,
    StcJump,
    VportTarget,
)
from emu.device.objects.eth.flow_counter import FlowCounter, FlowCounters
from emu.device.objects.eth.flow_meter import LOG_MOST_IN_RANGE, FlowMeterAso, Metering
from emu.device.objects.eth.icm_addresses import DROPS, IcmKind, place_at
from emu.device.objects.eth.reshape import Step
from emu.device.objects.eth.tir import Tir
from emu.device.objects.memory.sw_icm import STE_BYTES, STEERING, IcmMemory
from emu.device.objects.object import Object
from emu.device.objects.table import Table
from emu.device.port.eth.headers import UPLINK, FrameError, Headers, Marked
from layouts.eth_enums import FlowTableType

log = logging.getLogger(__name__)

FIELDS_PER_ENTRY: Final = 16
"""What an entry counts as among the fields that are read of a packet."""
FIELDS_PER_ACTION: Final = 8
"""The same of each of its actions, which are read with it."""
FIELDS_PER_DECODED: Final = 16
"""The same of one that is read for the first time since it was written, and of each action."""
FIELDS_PER_CHANGE: Final = 128
"""The same of one that changes the packet."""
_AREA: Final = range(STEERING.start, STEERING.start + (1 << STEERING.log_size))
_ALLOWING: Final = {IcmKind.TX_ALLOW: FlowTableType.NIC_TX}
_VPORTS: Final = (IcmKind.VPORT_RX, IcmKind.VPORT_TX)
_ONWARD: Final = (IcmKind.FLOW_TABLE, IcmKind.SAMPLER)
"""Where other tables look at a packet."""


class Walked(NamedTuple):
    """Where a packet has come out."""

    action: FteAction
    headers: Headers
    """The packet as it is then."""
    cost: int
    """Fields that have been read."""
    parts: frozenset[Part] | None
    """The parts of the packet, as it was before, that have decided all this, besides
    ``fields.base``; None: it is decided anew for each packet."""


class _WrongTurnError(Exception):
    """The way leads nowhere; the text says how."""


class SteeringMemory:
    """The entries in a function's software ICM, and the objects that these lead to."""

    def __init__(
        self,
        icm: IcmMemory,
        planner: Planner,
        tirs: Table[Tir],
        tables: Table[FlowTable],
        counters: FlowCounters,
        samplers: Table[Sampler],
        meters: Table[FlowMeterAso],
        vport: Callable[[int], VportTarget | None],
        gvmi: Callable[[int, int], int],
        moved: Callable[[], int],
    ) -> None:
        """``vport``: the one of a number among addresses; ``gvmi``: the vhca id of its function, by
        that of its switch's manager and its number; ``moved``: how often functions have come and
        gone."""
        self._icm = icm
        self._planner = planner
        self._tirs = tirs
        self._tables = tables
        self._counters = counters
        self._samplers = samplers
        self._meters = meters
        self._vport = vport
        self._gvmi = gvmi
        self._moved = moved
        self.dropped: Counter[str] = Counter()
        """Packets that came to nothing that makes sense, by what they came to."""

    @property
    def age(self) -> int:
        """It grows whenever entries have changed, or something has gone that they lead to."""
        return (
            self._icm.changes + self._tirs.removed + self._tables.removed + self._counters.removed
            + self._samplers.removed + self._meters.removed + self._moved()
        )  # fmt: skip

    def walk(
        self,
        table: FlowTable,
        headers: Headers,
        limit: int,
        at: int = 0,
        before: Sequence[Step] = (),
    ) -> Walked:
        """What becomes of a packet from a table's first entry on; ``limit`` bounds the cost.

        ``at`` is the address of another one where it goes on after a meter. ``before`` are the
        steps that the packet has behind it.
        """
        way = _Way(headers, self._gvmi, before)
        try:
            end = self._follow(way, at or _root(table, headers), limit)
            if way.meter is not None:
                action = self._metered(way, end, table)
            else:
                action = self._ended(way, end, table.table_type)
        except (_WrongTurnError, BadEntryError, FrameError) as error:
            self._note(str(error))
            action = FteAction(FteVerdict.DROP, counters=tuple(way.counters))
            way.parts = None
        return Walked(action, way.headers, way.cost, way.parts)

    def _note(self, why: str) -> None:
        if why not in self.dropped and len(self.dropped) >= MAX_REASONS:
            why = OTHER_REASONS
        self.dropped[why] += 1
        if self.dropped[why] == 1:
            log.warning("steering entries: %s: the packet is dropped", why)

    def _follow(self, way: _Way, address: int, limit: int) -> int:
        """The address of an object to which entries lead."""
        while address in _AREA:
            if way.cost > limit:
                raise _WrongTurnError("too many entries")
            ste = self._entry(way, address)
            way.cost += FIELDS_PER_ENTRY + FIELDS_PER_ACTION * ste.plan.actions
            value = 0
            if ste.definer is not None:
                value = way.read(ste.definer)
                way.cost += ste.definer.cost
            if value & ste.mask != ste.tag:
                address = ste.miss
                continue
            if ste.counter:
                self._count(way, ste.counter)
            way.take(ste)
            address = ste.base
            if way.meter is not None:
                break
            if ste.hasher is not None:
                value = way.read(ste.hasher) & ste.bytes_hashed
                way.cost += ste.hasher.cost
                address += STE_BYTES * hash_index(value, ste.size)
        return address

    def _entry(self, way: _Way, address: int) -> Ste:
        entry = self._icm.decoded.get(address)
        if entry is None:
            if address % STE_BYTES or not self._icm.is_held(address):
                raise _WrongTurnError("nothing is written where an entry should be")
            entry = decoded(self._icm.read(address, STE_BYTES), self._planner)
            self._icm.keep(address, entry)
            way.cost += FIELDS_PER_DECODED * (1 + entry.plan.actions)
        assert isinstance(entry, Ste)
        return entry

    def _count(self, way: _Way, number: int) -> None:
        counter = self._counters.get(number)
        if counter is None:
            raise _WrongTurnError("no such flow counter")
        way.counters.append(counter)

    def _metered(self, way: _Way, address: int, table: FlowTable) -> FteAction:
        """A meter is asked, and the packet goes on behind it."""
        given = way.meter
        assert given is not None
        aso = self._meters.get(given.number >> LOG_MOST_IN_RANGE)
        if aso is None or not aso.has(given.number):
            raise _WrongTurnError("no such flow meter")
        way.look_again()
        marks = marks_of(table.table_type, given.register)
        metering = Metering(aso, given.number, given.place, given.before, marks)
        return way.action(FteVerdict.FORWARD, StcJump(table, address), metering=metering)

    def _ended(self, way: _Way, address: int, table_type: FlowTableType) -> FteAction:
        """What an entry does that leads to the object at an address."""
        place = place_at(address)
        if place is None:
            raise _WrongTurnError("no object at an address")
        kind, number = place
        if kind in DROPS:
            return way.action(FteVerdict.DROP)
        if _ALLOWING.get(kind) is table_type:
            return way.action(FteVerdict.ALLOW)
        return way.action(FteVerdict.FORWARD, self._target(way, kind, number, table_type))

    def _target(self, way: _Way, kind: IcmKind, number: int, table_type: FlowTableType) -> Object:
        target: Object | None = None
        if kind in _ONWARD:
            way.look_again()
        if kind is IcmKind.TIR and table_type is FlowTableType.NIC_RX:
            target = self._tirs.get(number)
        elif kind is IcmKind.FLOW_TABLE:
            table = self._tables.get(number)
            target = table if table is not None and table.table_type is table_type else None
        elif kind is IcmKind.SAMPLER:
            sampler = self._samplers.get(number)
            is_of_type = sampler is not None and sampler.default.table_type is table_type
            target = sampler if is_of_type else None
        elif kind in _VPORTS and table_type is FlowTableType.FDB:
            target = self._vport(number)
        if target is None:
            raise _WrongTurnError(f"no {kind.name} for a packet in {table_type.name}")
        return target


MAX_REASONS: Final = 64
"""Why packets are dropped: reasons that are counted and told of one by one."""
OTHER_REASONS: Final = "other reasons"
_SOURCE: Final[frozenset[Part]] = frozenset({source})
"""It decides with which entry an FDB begins."""


def _root(table: FlowTable, headers: Headers) -> int:
    """The address of a table's first entry: an FDB's has one for packets from the cable."""
    assert table.roots is not None  # or software would not own it
    if table.table_type is not FlowTableType.FDB:
        return table.roots[0]
    from_cable = isinstance(headers, Marked) and headers.source_port == UPLINK
    return table.roots[0 if from_cable else 1]


class _Way:
    """What has become of a packet so far."""

    def __init__(
        self, headers: Headers, gvmi: Callable[[int, int], int], before: Sequence[Step]
    ) -> None:
        packet = headers if isinstance(headers, Marked) else marked(headers, {})
        packet.gvmi = gvmi(packet.source_owner, packet.source_port)
        self.headers = packet
        self.steps: tuple[Step, ...] = ()
        self.counters: list[FlowCounter] = []
        self.tag = 0
        self.cost = 0
        self.meter: Meter | None = None
        self.parts: frozenset[Part] | None = _SOURCE
        self._is_changed = any(step.in_frame for step in before)
        self._is_opaque = any(step.reshapes for step in before)

    def read(self, selection: Selection) -> int:
        """Some fields of the packet."""
        if self._is_opaque or (self._is_changed and selection.is_deep):
            self.parts = None
        elif self.parts is not None and not selection.parts <= self.parts:
            self.parts |= selection.parts
        return selection.value(self.headers)

    def look_again(self) -> None:
        """What follows reads the packet as it is now."""
        if self._is_opaque:
            self.parts = None

    def take(self, ste: Ste) -> None:
        """Do what an entry says. Raises FrameError when that is impossible with the packet."""
        plan = ste.plan
        self.meter = plan.meter
        if plan.steps is not None:
            self.cost += FIELDS_PER_CHANGE
            if plan.parts is None or (self._is_opaque and plan.parts):
                self.parts = None
            elif self.parts is not None:
                self.parts |= plan.parts
            self._is_changed |= plan.steps.in_frame
            self._is_opaque |= plan.is_opaque
            self.headers = rewrite(self.headers, plan.steps)
            self.steps += plan.steps.steps
        self.tag = plan.tag or self.tag

    def action(
        self, verdict: FteVerdict, *targets: Object, metering: Metering | None = None
    ) -> FteAction:
        """All of it, as of one entry."""
        return FteAction(verdict, targets, self.tag, tuple(self.counters), self.steps, metering)

"""The walk of a packet through the STEs of a software-owned table.

An STE that matches leads to a table, where a hash of the packet selects the next STE. An STE that
does not match leads to another STE. The walk ends at an object's address, and its result has the
form of one firmware-owned entry's action. A guest writes the STEs: each address is looked up, the
walk is bounded, and invalid content drops the packet.

Source: core/steering/dr_ste.c, dr_rule.c, dr_action.c.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from emu.device.engine.eth.ste.actions import MeterStep, Planner
from emu.device.engine.eth.ste.definers import FieldSelection
from emu.device.engine.eth.ste.entry import BadEntryError, Ste, decoded, hash_index
from emu.device.engine.eth.steering.colors import marks_of
from emu.device.engine.eth.steering.fields import source
from emu.device.engine.eth.steering.match_field import Part
from emu.device.engine.eth.steering.rewrite import cost_of, rewrite
from emu.device.objects.eth.flow.action import FteAction, FteVerdict, VportTarget
from emu.device.objects.eth.flow.table import FlowTable
from emu.device.objects.eth.flow.targets import Sampler, StcJump
from emu.device.objects.eth.flow_counter import FlowCounter, FlowCounters
from emu.device.objects.eth.flow_meter import LOG_MAX_IN_RANGE, FlowMeterAso, Metering
from emu.device.objects.eth.icm_addresses import DROPS, IcmKind, place_at
from emu.device.objects.eth.reshape import Step
from emu.device.objects.eth.tir import Tir
from emu.device.objects.memory.sw_icm import STE_BYTES, STEERING, IcmMemory
from emu.device.objects.object import Object
from emu.device.objects.table import Table
from emu.device.port.eth.headers import UPLINK, FrameError, Headers, Marked
from emu.device.rounds.costs import LOG_STEERED_PER_STEP
from layouts.enums.flow_table import FlowTableType

log = logging.getLogger(__name__)

FIELDS_PER_ENTRY: Final = 16
"""Cost of an STE, in fields read of a packet."""
FIELDS_PER_ACTION: Final = 8
"""Cost of each action that is read with an STE, in fields."""
FIELDS_PER_DECODED: Final = 16
"""Additional cost of an STE that must be decoded, and of each of its actions, in fields."""
_AREA: Final = range(STEERING.start, STEERING.start + (1 << STEERING.log_size))
_ALLOWING: Final = {IcmKind.TX_ALLOW: FlowTableType.NIC_TX}
_VPORTS: Final = (IcmKind.VPORT_RX, IcmKind.VPORT_TX)
_STC_JUMP: Final = (IcmKind.FLOW_TABLE, IcmKind.SAMPLER)
"""Objects that pass a packet to other tables."""


class Walked(NamedTuple):
    """The result of a walk."""

    action: FteAction
    headers: Headers
    """The packet after the walk."""
    cost: int
    """Number of fields read."""
    parts: frozenset[Part] | None
    """Key parts of the unchanged packet that decided the result, besides ``fields.base``. None: the
    result must be decided anew for each packet."""


class _BadWalkError(Exception):
    """The walk cannot continue; the text names the reason."""


class SteeringMemory:
    """The STEs in a function's software ICM, and the objects to which they lead."""

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
        """Set up the walk over ``icm``.

        ``vport`` returns the vPort of a number in an address. ``gvmi`` returns a function's vhca
        id, by its switch manager's vhca id and its vPort number. ``moved`` returns the number of
        functions added and removed so far.
        """
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
        """Packets dropped for invalid content, by reason."""

    @property
    def age(self) -> int:
        """Grows when STEs have changed, or an object to which they may lead has been removed."""
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
        """Walk from a table's first STE to an object; ``limit`` bounds the cost in fields.

        ``at`` is the address of another STE at which the walk continues after a meter. ``before``
        are the steps already applied. Never raises: unsupported content, an unknown object, an
        impossible change or too long a walk give the verdict DROP. Drops count in ``dropped`` by
        reason.
        """
        path = _Path(headers, self._gvmi, before)
        try:
            end = self._follow(path, at or _root(table, headers), limit)
            if path.meter is not None:
                action = self._metered(path, end, table)
            else:
                action = self._ended(path, end, table.table_type)
        except (_BadWalkError, BadEntryError, FrameError) as error:
            self._note(str(error))
            action = FteAction(FteVerdict.DROP, counters=tuple(path.counters))
            path.parts = None
        return Walked(action, path.headers, path.cost, path.parts)

    def _note(self, why: str) -> None:
        """Count a dropped packet by its reason; log the first packet of each reason.

        Beyond MAX_REASONS the reason is OTHER_REASONS.
        """
        if why not in self.dropped and len(self.dropped) >= MAX_REASONS:
            why = OTHER_REASONS
        self.dropped[why] += 1
        if self.dropped[why] == 1:
            log.warning("steering entries: %s: the packet is dropped", why)

    def _follow(self, path: _Path, address: int, limit: int) -> int:
        """Follow STEs; return the address of the object to which they lead, or behind a meter.

        Raises _BadWalkError beyond ``limit``, for unwritten addresses and unknown counters. Raises
        BadEntryError or FrameError for an STE.
        """
        while address in _AREA:
            if path.cost > limit:
                raise _BadWalkError("too many steering entries")
            ste = self._entry(path, address)
            path.cost += FIELDS_PER_ENTRY + FIELDS_PER_ACTION * ste.plan.actions
            value = 0
            if ste.definer is not None:
                value = path.read(ste.definer)
                path.cost += ste.definer.cost
            if value & ste.mask != ste.tag:
                address = ste.miss
                continue
            if ste.counter:
                self._add_counter(path, ste.counter)
            path.apply(ste)
            address = ste.base
            if path.meter is not None:
                break
            if ste.hasher is not None:
                value = path.read(ste.hasher) & ste.bytes_hashed
                path.cost += ste.hasher.cost
                address += STE_BYTES * hash_index(value, ste.size)
        return address

    def _entry(self, path: _Path, address: int) -> Ste:
        """Return the STE at an address, decoded once until ICM changes.

        Raises _BadWalkError for an unwritten or unaligned address, BadEntryError for an unsupported
        STE.
        """
        entry = self._icm.decoded.get(address)
        if entry is None:
            if address % STE_BYTES or not self._icm.is_held(address):
                raise _BadWalkError("no steering entry has been written at the address")
            planner = self._planner
            before = planner.read
            try:
                entry = decoded(self._icm.read(address, STE_BYTES), planner)
            finally:  # also for a bad entry, of which nothing is kept
                path.cost += FIELDS_PER_DECODED * (1 + planner.read - before)
            self._icm.keep(address, entry)
        assert isinstance(entry, Ste)
        return entry

    def _add_counter(self, path: _Path, number: int) -> None:
        """Add a flow counter to the path. Raises _BadWalkError for an unknown number."""
        counter = self._counters.get(number)
        if counter is None:
            raise _BadWalkError("no such flow counter")
        path.counters.append(counter)

    def _metered(self, path: _Path, address: int, table: FlowTable) -> FteAction:
        """Return the action of a meter, which continues the walk at ``address``.

        Raises _BadWalkError for an unknown meter.
        """
        given = path.meter
        assert given is not None
        aso = self._meters.get(given.number >> LOG_MAX_IN_RANGE)
        if aso is None or not aso.has(given.number):
            raise _BadWalkError("no such flow meter")
        path.read_by_next()
        marks = marks_of(table.table_type, given.register)
        metering = Metering(aso, given.number, given.place, given.before, marks)
        return path.action(FteVerdict.FORWARD, StcJump(table, address), metering=metering)

    def _ended(self, path: _Path, address: int, table_type: FlowTableType) -> FteAction:
        """Return the action for a walk that ends at an object's address: drop, allow or forward.

        Raises _BadWalkError for an address without an object, or one unfit for the table's type.
        """
        located = place_at(address)
        if located is None:
            raise _BadWalkError("the address belongs to no object")
        kind, number = located
        if kind in DROPS:
            return path.action(FteVerdict.DROP)
        if _ALLOWING.get(kind) is table_type:
            return path.action(FteVerdict.ALLOW)
        return path.action(FteVerdict.FORWARD, self._target(path, kind, number, table_type))

    def _target(self, path: _Path, kind: IcmKind, number: int, table_type: FlowTableType) -> Object:
        """Return the TIR, table, sampler or vPort with a number.

        Raises _BadWalkError if it does not exist or does not fit the table's type.
        """
        target: Object | None = None
        if kind in _STC_JUMP:
            path.read_by_next()
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
            raise _BadWalkError(f"no {kind.name} for a packet in {table_type.name}")
        return target


MAX_REASONS: Final = 64
"""Number of drop reasons that are counted and logged separately."""
OTHER_REASONS: Final = "other reasons"
_SOURCE: Final[frozenset[Part]] = frozenset({source})
"""The source vPort decides an FDB's first STE."""


def _root(table: FlowTable, headers: Headers) -> int:
    """Return the address of a table's first STE.

    An FDB has two: one for packets from the uplink, one for all others.
    """
    assert table.roots is not None  # every table that software owns has roots
    if table.table_type is not FlowTableType.FDB:
        return table.roots[0]
    from_cable = isinstance(headers, Marked) and headers.source_port == UPLINK
    return table.roots[0 if from_cable else 1]


class _Path:
    """State of a packet during a walk."""

    def __init__(
        self, headers: Headers, gvmi: Callable[[int, int], int], before: Sequence[Step]
    ) -> None:
        packet = headers if isinstance(headers, Marked) else Marked(headers, {})
        packet.gvmi = gvmi(packet.source_owner, packet.source_port)
        self.headers = packet
        self.steps: tuple[Step, ...] = ()
        self.counters: list[FlowCounter] = []
        self.tag = 0
        self.cost = 0
        self.meter: MeterStep | None = None
        self.parts: frozenset[Part] | None = _SOURCE
        self._is_changed = any(step.in_frame for step in before)
        self._is_opaque = any(step.reshapes for step in before)

    def read(self, selection: FieldSelection) -> int:
        """Return the value of some fields of the packet, and record the key parts that decide them.

        After headers have moved, the path's key parts become unknown: the result is not cached.
        """
        if self._is_opaque or (self._is_changed and selection.is_deep):
            self.parts = None
        elif self.parts is not None and not selection.parts <= self.parts:
            self.parts |= selection.parts
        return selection.value(self.headers)

    def read_by_next(self) -> None:
        """Record that later tables read the packet after its changes."""
        if self._is_opaque:
            self.parts = None

    def apply(self, ste: Ste) -> None:
        """Apply a matching STE's plan: its changes, flow tag and meter.

        Raises FrameError when a change is impossible for the packet.
        """
        plan = ste.plan
        self.meter = plan.meter
        if plan.steps is not None:
            self.cost += cost_of(plan.steps, len(self.headers.frame)) << LOG_STEERED_PER_STEP
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
        """Return the whole walk as one entry's action."""
        return FteAction(verdict, targets, self.tag, tuple(self.counters), self.steps, metering)

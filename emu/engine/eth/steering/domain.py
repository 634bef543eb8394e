"""A steering domain: its root, the changes that drivers make, and the decision about each packet.

Tables of a domain lead to tables of higher levels only, so a packet's path ends. Decisions are
cached by the parts of a packet that some group matches; any change drops the whole cache.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from emu.engine.eth.steering.criteria import Criteria
from emu.engine.eth.steering.errors import SteeringBusyError, SteeringError
from emu.engine.eth.steering.fields import Part, base
from emu.engine.eth.steering.table import (
    Action,
    FlowCounter,
    FlowEntry,
    FlowGroup,
    FlowTable,
    Miss,
    Verdict,
)
from emu.port.eth.headers import Headers

MAX_VISITS = 256
"""Tables that one packet visits; entries with several destinations would make it more and more."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to a packet, and to all others with the same matched parts."""

    deliveries: tuple[tuple[Hashable, int], ...]
    """Destinations that are no tables, each with the tag of the entry that named it."""
    counters: tuple[FlowCounter, ...]
    allowed: bool
    """An entry let it pass; it goes on as in a domain without tables."""
    switched: bool
    """A table's miss hands it to the next domain."""
    missed: bool
    """It came to an end without an entry: by a default miss, after MAX_VISITS, without a root."""


class Steering:
    """The flow tables of one type (flow_table_type).

    The owner defines what deliveries and misses mean. ``max_destinations`` bounds what one
    entry may send a packet to (1 << log_max_destination).
    """

    CACHED = 4096
    """Decisions that are kept."""

    def __init__(self, max_destinations: int) -> None:
        self._max_destinations = max_destinations
        self._root: FlowTable | None = None
        self._groups: dict[FlowGroup, frozenset[Part]] = {}
        self._parts: tuple[Part, ...] = ()
        self._decisions: dict[Hashable, Decision] = {}

    @property
    def root(self) -> FlowTable | None:
        """Where packets begin."""
        return self._root

    # Packets.

    def decide(self, headers: Headers, size: int) -> Decision:
        """Decide what happens to a packet of ``size`` bytes, and count it."""
        key: Hashable = base(headers)
        if self._parts:
            key = (key, *[part(headers) for part in self._parts])
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._walk(headers)
            if len(self._decisions) >= self.CACHED:
                self._decisions.clear()
            self._decisions[key] = decision
        for counter in decision.counters:
            counter.packets += 1
            counter.octets += size
        return decision

    def _walk(self, headers: Headers) -> Decision:
        deliveries: list[tuple[Hashable, int]] = []
        counters: list[FlowCounter] = []
        allowed = switched = False
        missed = self._root is None
        ways = [self._root] if self._root else []
        visits = 0
        while ways and visits < MAX_VISITS:
            table = ways.pop()
            visits += 1
            entry = table.find(headers)
            if entry is None:
                if isinstance(table.miss, FlowTable):
                    ways.append(table.miss)
                switched |= table.miss is Miss.SWITCH_DOMAIN
                missed |= table.miss is Miss.DEFAULT
                continue
            action = entry.action
            counters += action.counters
            allowed |= action.verdict is Verdict.ALLOW
            for target in action.destinations:
                if isinstance(target, FlowTable):
                    ways.append(target)
                else:
                    deliveries.append((target, action.tag))
        missed |= bool(ways)
        return Decision(tuple(deliveries), tuple(counters), allowed, switched, missed)

    def flush(self) -> None:
        """Forget all decisions."""
        self._decisions.clear()

    # Tables.

    def create_table(self, level: int, log_size: int, miss: FlowTable | Miss) -> FlowTable:
        """A table without groups. Its miss may lead to a table of a higher level only."""
        self._check_miss(level, miss)
        table = FlowTable(level, 1 << log_size, miss)
        self._refer(miss, 1)
        return table

    def modify_miss(self, table: FlowTable, miss: FlowTable | Miss) -> None:
        """Send the packets that no entry matches elsewhere."""
        self._check_miss(table.level, miss)
        self._refer(miss, 1)
        self._refer(table.miss, -1)
        table.miss = miss
        self.flush()

    def destroy_table(self, table: FlowTable) -> None:
        """Refused while it has groups or packets are sent to it; as the root it may go."""
        if table.groups:
            raise SteeringBusyError("flow table still has groups")
        if table.references:
            raise SteeringBusyError("other flow tables still lead to this one")
        self._refer(table.miss, -1)
        if self._root is table:
            self._root = None
        self.flush()

    def set_root(self, table: FlowTable | None) -> None:
        """Let packets begin elsewhere, or nowhere."""
        self._root = table
        self.flush()

    @staticmethod
    def _check_miss(level: int, miss: FlowTable | Miss) -> None:
        if isinstance(miss, FlowTable) and miss.level <= level:
            raise SteeringError("a flow table's miss must lead to a higher level")

    @staticmethod
    def _refer(target: object, change: int) -> None:
        if isinstance(target, FlowTable):
            target.references += change

    # Groups.

    def create_group(
        self, table: FlowTable, first: int, last: int, masks: Mapping[str, int]
    ) -> FlowGroup:
        """Assign the indices ``first`` to ``last`` to entries that match these fields."""
        criteria = Criteria(masks)
        if not 0 <= first <= last < table.size:
            raise SteeringError("flow group's indices lie outside its table")
        if any(table.overlapping(first, last)):
            raise SteeringError("flow group's indices overlap another group's")
        group = FlowGroup(table, first, last, criteria)
        insort(table.groups, group)
        self._groups[group] = criteria.parts
        self._collect_parts()
        return group

    def destroy_group(self, group: FlowGroup) -> None:
        """Refused while it has entries."""
        if group.entries:
            raise SteeringBusyError("flow group still has entries")
        group.table.groups.remove(group)
        del self._groups[group]
        self._collect_parts()

    def _collect_parts(self) -> None:
        """Collect all parts of a packet that some group matches, and drop the cached decisions."""
        self._parts = tuple(dict.fromkeys(p for parts in self._groups.values() for p in parts))
        self.flush()

    # Entries.

    def create_entry(
        self, group: FlowGroup, index: int, values: Mapping[str, int], action: Action
    ) -> FlowEntry:
        """An entry at an index of the group that is free."""
        if not group.first <= index <= group.last:
            raise SteeringError("flow table entry's index is not of its group")
        if index in group.entries:
            raise SteeringError("there is a flow table entry with this index")
        self._check_action(group.table, action)
        entry = FlowEntry(group, index, group.criteria.key_of(values), action)
        group.add(entry)
        self._refer_all(action, 1)
        self.flush()
        return entry

    def modify_entry(self, entry: FlowEntry, action: Action) -> None:
        """Change what is done with its packets."""
        self._check_action(entry.group.table, action)
        self._refer_all(action, 1)
        self._refer_all(entry.action, -1)
        entry.action = action
        self.flush()

    def delete_entry(self, entry: FlowEntry) -> None:
        """Its packets go to the next entry that they match."""
        entry.group.remove(entry)
        self._refer_all(entry.action, -1)
        self.flush()

    def _check_action(self, table: FlowTable, action: Action) -> None:
        forward = action.verdict is Verdict.FORWARD
        if forward != bool(action.destinations):
            raise SteeringError("flow table entry's destinations do not go with its action")
        if len(action.destinations) > self._max_destinations:
            raise SteeringError("flow table entry has more destinations than log_max_destination")
        if any(target.level <= table.level for target in action.tables):
            raise SteeringError("flow table entries must lead to a higher level")

    def _refer_all(self, action: Action, change: int) -> None:
        for target in action.destinations:
            self._refer(target, change)
        for counter in action.counters:
            counter.references += change

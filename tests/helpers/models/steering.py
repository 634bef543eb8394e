"""Flow tables of one domain without commands: what the handlers do, on names instead of TIRs."""

from __future__ import annotations

from functools import total_ordering

from emu.device.engine.eth.steering import changes as steering
from emu.device.engine.eth.steering.criteria import Criteria
from emu.device.engine.eth.steering.domain import decide
from emu.device.objects.eth.flow.action import FteAction, FteVerdict
from emu.device.objects.eth.flow.domain import FlowDomain
from emu.device.objects.eth.flow.table import FlowEntry, FlowGroup, FlowTable
from emu.device.objects.ledger import Ledger
from emu.device.objects.object import Object
from emu.device.objects.table import Table
from layouts.steering.flow_group import query_flow_group_out
from layouts.steering.flow_table import flow_table_context


@total_ordering
class Name(Object):
    """A destination that is equal to its name."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def __eq__(self, other):
        return self.name == (other.name if isinstance(other, Name) else other)

    def __lt__(self, other):
        return self.name < other.name

    def __hash__(self):
        return hash(self.name)


def target_of(target):
    return target if isinstance(target, Object) else Name(target)


def to(*destinations, tag=0, counters=()):
    """Forward to flow tables, and to names."""
    targets = tuple(map(target_of, destinations))
    return FteAction(FteVerdict.FORWARD, targets, tag, counters)


class Steering:
    """The tables, groups and entries of a function."""

    def __init__(self):
        ledger = Ledger(1 << 30)
        self.domain = FlowDomain()
        self.tables = Table(FlowTable, 1, 1 << 10, ledger)
        self.groups = Table(FlowGroup, 1, 1 << 14, ledger)
        self.entries = Table(FlowEntry, 1, 1 << 10, ledger)

    @property
    def root(self):
        return self.domain.root

    def decide(self, headers, size):
        return decide(self.domain, headers, size)

    def set_root(self, table):
        steering.set_root(self.domain, table)

    def create_table(self, level, log_size, miss):
        steering.check_miss(level, miss)
        table = FlowTable(flow_table_context.new(level=level, log_size=log_size), miss)
        self.tables.add(table)
        return table

    def modify_miss(self, table, miss):
        steering.check_miss(table.level, miss)
        self.tables.change(table, lambda: setattr(table, "miss", miss))
        self.domain.flush()

    def destroy_table(self, table):
        self.tables.remove(table.handle)
        if self.root is table:
            self.set_root(None)

    def create_group(self, table, first, last, masks):
        steering.check_group(table, first, last)
        about = query_flow_group_out.new(start_flow_index=first, end_flow_index=last)
        group = FlowGroup(table, Criteria(masks), about)
        self.groups.add(group)
        steering.add_group(self.domain, group)
        return group

    def destroy_group(self, group):
        self.groups.remove(group.handle)
        steering.remove_group(self.domain, group)

    def create_entry(self, group, index, values, action):
        steering.check_index(group, index)
        steering.check_action(group.table, action)
        entry = FlowEntry(group, index, group.criteria.key_of(values), action)
        self.entries.add(entry)
        steering.add_entry(self.domain, entry)
        return entry

    def modify_entry(self, entry, action):
        steering.check_action(entry.group.table, action)
        self.entries.change(entry, lambda: setattr(entry, "action", action))
        self.domain.flush()

    def delete_entry(self, entry):
        self.entries.remove(entry.handle)
        steering.remove_entry(self.domain, entry)

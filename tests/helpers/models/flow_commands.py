"""A plain model of the steering commands: what is there, what a command may do, where frames go.

It keeps everything in dictionaries by number, checks a command against all that is there, and
tries every entry of a table for a packet (``helpers.models.flow_model``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.device.objects.eth.flow.action import FteVerdict
from emu.device.objects.eth.flow.table import Miss
from helpers.models.flow_model import Entry, Table, outcome


@dataclass
class Group:
    table: int
    first: int
    last: int
    masks: dict


@dataclass
class Rule:
    """An entry: where it is, what it matches, what it does."""

    group: int
    values: dict
    drop: bool
    onto: list
    """("tir", number) and ("table", number)."""
    tag: int
    counters: list


@dataclass
class Sheet:
    """A flow table."""

    level: int
    size: int
    miss: int | None
    rules: dict = field(default_factory=dict)
    """By index."""


class Model:
    """Everything that the commands have made. Each ``may_`` says whether a command is taken."""

    def __init__(self, most_rules):
        self.tables, self.groups, self.tirs = {}, {}, {}
        self.counters = {}
        self.root = None
        self.most_rules = most_rules

    # -- checks

    def leads_up(self, level, number):
        return number in self.tables and self.tables[number].level > level

    def may_create_table(self, level, miss):
        return miss is None or self.leads_up(level, miss)

    def may_destroy_table(self, number):
        if number not in self.tables:
            return False
        users = [table for table in self.tables.values() if table.miss == number]
        users += [rule for rule in self.rules() if ("table", number) in rule.onto]
        users += [group for group in self.groups.values() if group.table == number]
        return not users

    def may_create_group(self, table, first, last):
        if table not in self.tables or not first <= last < self.tables[table].size:
            return False
        indices = set(range(first, last + 1))
        return not any(
            indices & set(range(group.first, group.last + 1))
            for group in self.groups.values()
            if group.table == table
        )

    def may_destroy_group(self, table, number):
        group = self.groups.get(number)
        return (
            group is not None
            and group.table == table
            and not any(rule.group == number for rule in self.rules())
        )

    def may_do(self, level, drop, onto, counters):
        """Whether an entry of a table of this level may do this."""
        targets = all(
            number in self.tirs if kind == "tir" else self.leads_up(level, number)
            for kind, number in onto
        )
        return bool(onto) != drop and targets and set(counters) <= self.counters.keys()

    def may_create_rule(self, table, index, number, drop, onto, counters):
        group = self.groups.get(number)
        return (
            table in self.tables
            and group is not None
            and group.table == table
            and group.first <= index <= group.last
            and index not in self.tables[table].rules
            and self.may_do(self.tables[table].level, drop, onto, counters)
            and len(self.rules()) < self.most_rules
        )

    def rules(self):
        return [rule for table in self.tables.values() for rule in table.rules.values()]

    def uses_of_counter(self, number):
        return sum(rule.counters.count(number) for rule in self.rules())

    # -- packets

    def outcomes(self, packets):
        """Of the fields of each packet: (what it is delivered to with tags, counters, missed)."""
        built = {number: Table(table.level, Miss.DEFAULT) for number, table in self.tables.items()}
        for number, table in self.tables.items():
            if table.miss is not None:
                built[number].miss = built[table.miss]
            for index, rule in table.rules.items():
                onto = [built[n] if kind == "table" else self.tirs[n] for kind, n in rule.onto]
                verdict = FteVerdict.DROP if rule.drop else FteVerdict.FORWARD
                masks = self.groups[rule.group].masks
                action = (verdict, onto, rule.tag, rule.counters)
                built[number].entries[index] = Entry(masks, rule.values, action)
        root = built.get(self.root)
        for fields in packets:
            deliveries, counted, flags = outcome(root, fields)
            yield deliveries, counted, "missed" in flags

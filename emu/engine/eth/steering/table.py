"""Flow tables, their groups and entries: what they hold, and which entry a packet finds.

A table's indices are shared out to groups, which do not overlap; a packet finds the entry with the
lowest index that it matches. All entries of a group match the same fields, so a group is a
dictionary: tables are as large as drivers ask for (2**16 and more) and hold a few entries.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from emu.engine.eth.steering.criteria import Criteria, Key
from emu.port.eth.headers import Headers


class Verdict(Enum):
    """What an entry does with a packet."""

    FORWARD = "forward"
    DROP = "drop"
    ALLOW = "allow"


class Miss(Enum):
    """What a table does with a packet that no entry matches, when it has no table to go on to."""

    DEFAULT = "default"
    SWITCH_DOMAIN = "switch domain"


class FlowCounter:
    """Packets and bytes, without frame check sequences, of all entries that count here."""

    __slots__ = ("octets", "packets", "references")

    def __init__(self) -> None:
        self.packets = 0
        self.octets = 0
        self.references = 0
        """Entries that count here."""


@dataclass(frozen=True, slots=True)
class Action:
    """What is done with the packets of an entry."""

    verdict: Verdict
    destinations: tuple[Hashable, ...] = ()
    """For FORWARD: flow tables, and whatever else the owner delivers to. All get the packet."""
    tag: int = 0
    """What the completion tells of a packet that this entry delivered."""
    counters: tuple[FlowCounter, ...] = ()

    @property
    def tables(self) -> list[FlowTable]:
        """The flow tables among the destinations."""
        return [target for target in self.destinations if isinstance(target, FlowTable)]


@dataclass(slots=True, eq=False)
class FlowEntry:
    """One entry (FTE)."""

    group: FlowGroup
    index: int
    key: Key
    action: Action

    def __lt__(self, other: FlowEntry) -> bool:
        return self.index < other.index


@dataclass(slots=True, eq=False)
class FlowGroup:
    """Some of a table's indices, ``first`` to ``last``, and what all entries there match."""

    table: FlowTable
    first: int
    last: int
    criteria: Criteria
    entries: dict[int, FlowEntry] = field(default_factory=dict)
    """By index."""
    by_key: dict[Key, list[FlowEntry]] = field(default_factory=dict)
    """Entries with one key, the lowest index first: it is the one that is found."""

    def __lt__(self, other: FlowGroup) -> bool:
        return self.first < other.first

    def add(self, entry: FlowEntry) -> None:
        """Put an entry at its index, which must be free."""
        self.entries[entry.index] = entry
        insort(self.by_key.setdefault(entry.key, []), entry)

    def remove(self, entry: FlowEntry) -> None:
        """Take an entry out."""
        del self.entries[entry.index]
        alike = self.by_key[entry.key]
        alike.remove(entry)
        if not alike:
            del self.by_key[entry.key]

    def find(self, headers: Headers) -> FlowEntry | None:
        """The packet's entry in this group."""
        key = self.criteria.read(headers) if self.by_key else None
        alike = self.by_key.get(key) if key is not None else None
        return alike[0] if alike else None


@dataclass(slots=True, eq=False)
class FlowTable:
    """A flow table; packets only ever go on to tables of higher levels."""

    level: int
    size: int
    """Indices that its groups may share out."""
    miss: FlowTable | Miss
    groups: list[FlowGroup] = field(default_factory=list)
    """By index."""
    references: int = 0
    """Entries and tables that send packets here."""

    def find(self, headers: Headers) -> FlowEntry | None:
        """The packet's entry."""
        for group in self.groups:
            if entry := group.find(headers):
                return entry
        return None

    def entry_at(self, index: int) -> FlowEntry | None:
        """The entry with this index."""
        for group in self.groups:
            if entry := group.entries.get(index):
                return entry
        return None

    def overlapping(self, first: int, last: int) -> Iterator[FlowGroup]:
        """The groups that hold one of these indices."""
        return (group for group in self.groups if group.first <= last and first <= group.last)

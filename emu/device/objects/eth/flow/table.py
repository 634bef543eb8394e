"""Flow tables, their groups and entries: the contents, and the entry that a packet matches.

Groups divide the indices of a table among themselves and do not overlap. A packet matches the entry
with the lowest index. All entries of a group match the same fields, so a group is a dictionary.
Tables have the size that drivers request (2**16 and more) and hold a few entries.

Source: PRM "Flow steering"; core/fs_core.c and core/fs_cmd.c of Linux 6.12.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from emu.device.objects.eth.flow.action import FteAction
from emu.device.objects.eth.flow.matcher import Key, Matcher
from emu.device.objects.eth.match_definer import MatchDefiner
from emu.device.objects.eth.modify_header import limit_of
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowSource

if TYPE_CHECKING:
    from layouts.steering.flow_group import query_flow_group_out
    from layouts.steering.flow_match import fte_match_param
    from layouts.steering.flow_table import flow_table_context
ACLS: Final = frozenset({FlowTableType.ESW_INGRESS_ACL, FlowTableType.ESW_EGRESS_ACL})
"""Table types of which each vPort has its own tables."""
SWITCHING: Final = ACLS | {FlowTableType.FDB}
"""Table types of the embedded switch."""
SNIFFING: Final = frozenset({FlowTableType.SNIFFER_RX, FlowTableType.SNIFFER_TX})
"""Table types that copies of packets traverse."""


class Miss(Enum):
    """The outcome of a packet that no entry matches, if the table has no next table."""

    DEFAULT = "default"
    SWITCH_DOMAIN = "switch domain"


class FlowTable(Object):
    """A flow table; a miss continues only in a table of a higher level."""

    __slots__ = (
        "ctx", "groups", "is_demux", "level", "miss", "roots", "size", "software", "table_type",
        "vport",
    )  # fmt: skip
    kind = "flow table"
    numbering = Numbering(limit_of("log_max_ft_num"))
    BASE_BYTES = 1024

    def __init__(
        self,
        ctx: flow_table_context,
        miss: FlowTable | Miss,
        table_type: FlowTableType = FlowTableType.NIC_RX,
        vport: int = 0,
        is_demux: bool = False,
    ) -> None:
        """Create an empty table.

        ``vport`` is the number of the vPort whose packets an ACL filters. ``is_demux``: the table
        distinguishes the ports of a LAG.
        """
        super().__init__()
        self.is_demux = is_demux
        self.vport = vport
        self.level = ctx.level
        self.size = 1 << ctx.log_size
        """Number of indices that the groups may divide among themselves."""
        self.miss = miss
        self.table_type = table_type
        self.ctx = ctx
        self.groups: list[FlowGroup] = []
        """Groups, sorted by index."""
        self.software: Any = None
        """For a software-owned table: the memory that decodes its entries and walks them
        (``emu.device.engine.eth.ste.walk.SteeringMemory``). None for a firmware-owned table."""
        self.roots: tuple[int, int] | None = None
        """For a software-owned table: ICM addresses of its first entries, receive then transmit."""

    def about(self) -> dict[str, object]:
        """Return type, level, size, number of groups and miss, and an ACL's vPort."""
        about = {
            "type": self.table_type.name, "level": self.level, "size": self.size,
            "groups": len(self.groups),
            "miss": self.miss.handle if isinstance(self.miss, FlowTable) else self.miss.value,
        }  # fmt: skip
        return about | {"vport": self.vport} if self.table_type in ACLS else about

    def holds(self) -> tuple[Object, ...]:
        return (self.miss,) if isinstance(self.miss, FlowTable) else ()

    def unlink(self) -> None:
        """Drop the groups, which refer back to the table, and the memory that knows all tables."""
        self.groups.clear()
        self.software = None

    def entry_at(self, index: int) -> FlowEntry | None:
        """Return the entry with this index in any group; None without one."""
        after = bisect_right(self.groups, index, key=lambda group: group.first)
        return self.groups[after - 1].entries.get(index) if after else None

    def is_taken(self, first: int, last: int) -> bool:
        """Return whether a group covers any index from ``first`` to ``last``, inclusive."""
        after = bisect_left(self.groups, first, key=lambda group: group.first)
        before = self.groups[after - 1] if after else None
        if before is not None and before.last >= first:
            return True
        return after < len(self.groups) and self.groups[after].first <= last


BySource = dict[FlowSource, "list[FlowEntry]"]
"""Entries with one key, by source of their packets, each list sorted by index. A packet matches the
lowest index among the entries for its own source and for any source."""
_NONE: Final = (None,)


class FlowGroup(Object):
    """The indices ``first`` to ``last`` of a table, and the match criteria of all entries there."""

    __slots__ = ("by_key", "criteria", "definer", "entries", "first", "last", "match", "table")
    kind = "flow group"
    numbering = Numbering(limit_of("log_max_flow"))
    BASE_BYTES = 6144
    """Cost with criteria of 20 fields and the view that a query returns."""

    def __init__(
        self,
        table: FlowTable,
        criteria: Matcher,
        match: query_flow_group_out,
        definer: MatchDefiner | None = None,
    ) -> None:
        """Create a group; ``match`` is returned by queries, ``definer`` supplies the criteria."""
        super().__init__()
        self.table = table
        self.first = match.start_flow_index
        self.last = match.end_flow_index
        self.criteria = criteria
        self.definer = definer
        self.match = match
        self.entries: dict[int, FlowEntry] = {}
        """Entries by index."""
        self.by_key: dict[Key, BySource] = {}

    def about(self) -> dict[str, object]:
        """Return table, index range, number of entries and match criteria."""
        return {
            "table": self.table.handle, "first": self.first, "last": self.last,
            "entries": len(self.entries), "masks": self.criteria.masks,
        }  # fmt: skip

    def holds(self) -> tuple[Object, ...]:
        return (self.table,) if self.definer is None else (self.table, self.definer)

    def key_of(self, index: int, param: fte_match_param) -> Key:
        """Return an entry's key: by its index if the criteria say so, else by its values."""
        key = self.criteria.key_at(index - self.first)
        return self.criteria.key_of(self.criteria.values_of(param)) if key is None else key

    def add(self, entry: FlowEntry) -> None:
        """Store an entry at its index, which must be free, and among those with the same key.

        The entry with the lowest index of a key matches.
        """
        self.entries[entry.index] = entry
        alike = self.by_key.setdefault(entry.key, {}).setdefault(entry.source, [])
        insort(alike, entry, key=lambda each: each.index)

    def discard(self, entry: FlowEntry) -> None:
        """Remove an entry from the group. Raises KeyError if its index is free."""
        del self.entries[entry.index]
        alike = self.by_key[entry.key]
        of_source = alike[entry.source]
        del of_source[bisect_left(of_source, entry.index, key=lambda each: each.index)]
        if not of_source:
            del alike[entry.source]
        if not alike:
            del self.by_key[entry.key]

    def unlink(self) -> None:
        """Drop the entries, which refer back to the group."""
        self.entries.clear()
        self.by_key.clear()

    def find(self, headers: Any) -> FlowEntry | None:
        """Return the entry that the packet matches in this group; None without one.

        Of entries with the same values the lowest index counts, among those for any source and for
        the packet's ``flow_source``.
        """
        key = self.criteria.read(headers) if self.by_key else None
        alike = self.by_key.get(key) if key is not None else None
        if alike is None:
            return None
        of_any = alike.get(FlowSource.ANY)
        if of_any is not None and len(alike) == 1:
            return of_any[0]
        of_source = alike.get(headers.flow_source)
        if of_any is None or of_source is None:
            return (of_any or of_source or _NONE)[0]
        return min(of_any[0], of_source[0], key=lambda each: each.index)


class FlowEntry(Object):
    """A flow table entry (FTE). Drivers name it by table and index; the handle is internal."""

    __slots__ = ("action", "ctx", "group", "index", "key", "source")
    kind = "flow table entry"
    numbering = Numbering(limit_of("log_max_flow"))
    BASE_BYTES = 4096
    DESTINATION_BYTES: ClassVar[int] = 64

    def __init__(
        self,
        group: FlowGroup,
        index: int,
        key: Key,
        action: FteAction,
        ctx: bytes = b"",
        source: FlowSource = FlowSource.ANY,
    ) -> None:
        """Create an entry.

        ``ctx`` is the flow_context with its lists, for queries. ``source`` limits the match to
        packets that enter the switch there.
        """
        super().__init__()
        self.source = source
        self.group = group
        self.index = index
        self.key = key
        self.action = action
        self.ctx = ctx

    @property
    def host_bytes(self) -> int:
        lists = len(self.action.destinations) + len(self.action.counters)
        return self.BASE_BYTES + self.DESTINATION_BYTES * lists

    def about(self) -> dict[str, object]:
        """Return table, index, matched values and actions, with destinations and counters."""
        action = self.action
        return {
            "table": self.group.table.handle, "index": self.index,
            "values": dict(zip(self.group.criteria.masks, self.key)),
            "action": action.verdict.value, "tag": action.tag,
            "destinations": [repr(target) for target in action.destinations],
            "counters": [counter.handle for counter in action.counters],
            "meter": action.metering.number if action.metering is not None else None,
        }  # fmt: skip

    def holds(self) -> tuple[Object, ...]:
        return (self.group, *self.action.references)

"""Flow tables, their groups and entries: the contents, and the entry that a packet matches.

Groups divide the indices of a table among themselves and do not overlap. A packet matches the entry
with the lowest index. All entries of a group match the same fields, so a group is a dictionary.
Tables have the size that drivers request (2**16 and more) and hold a few entries.

Source: PRM "Flow steering"; core/fs_core.c and core/fs_cmd.c of Linux 6.12.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from emu.device.objects.eth.flow_counter import FlowCounter
from emu.device.objects.eth.flow_meter import Metering
from emu.device.objects.eth.match_definer import MatchDefiner
from emu.device.objects.eth.modify_header import limit_of
from emu.device.objects.eth.packet_reformat import PacketReformat
from emu.device.objects.eth.parser import PARSER
from emu.device.objects.eth.reshape import Step, Steps
from emu.device.objects.ledger import Ledger
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from layouts.eth_enums import FlowSource, FlowTableType

if TYPE_CHECKING:
    from layouts.steering.flow_group import query_flow_group_out
    from layouts.steering.flow_match import fte_match_param
    from layouts.steering.flow_table import flow_table_context

Key = tuple[int, ...]
"""The values of a group's fields, under the group's masks."""


class Matcher(Protocol):
    """The match criteria of a group (``emu.device.engine.eth.steering.criteria``)."""

    @property
    def masks(self) -> Mapping[str, int]:
        """Mask by field name; the values in an entry's key have this order."""

    @property
    def cost(self) -> int:
        """Cost of reading the fields from a packet, in outer fields."""

    @property
    def parts(self) -> frozenset[Any]:
        """The packet fields that decide the match."""

    def key_of(self, values: Mapping[str, int]) -> Key:
        """Return the key of an entry with these values."""

    def key_at(self, place: int) -> Key | None:
        """Return the key of the entry at position ``place`` of the group.

        None where the entry's values decide, as in all groups but those that split by hash.
        """

    def values_of(self, param: fte_match_param) -> Mapping[str, int]:
        """Return an entry's values from its fte_match_param view."""

    def read(self, headers: Any) -> Key | None:
        """Return the key of a packet; None if the packet lacks one of the fields."""


ACLS: Final = frozenset({FlowTableType.ESW_INGRESS_ACL, FlowTableType.ESW_EGRESS_ACL})
"""Table types of which each vPort has its own tables."""
SWITCHING: Final = ACLS | {FlowTableType.FDB}
"""Table types of the embedded switch."""
SNIFFING: Final = frozenset({FlowTableType.SNIFFER_RX, FlowTableType.SNIFFER_TX})
"""Table types that copies of packets traverse."""


MAX_SAMPLERS: Final = 1 << 12


class FteVerdict(Enum):
    """The verdict of an entry on a packet."""

    FORWARD = "forward"
    DROP = "drop"
    ALLOW = "allow"


class Miss(Enum):
    """The outcome of a packet that no entry matches, if the table has no next table."""

    DEFAULT = "default"
    SWITCH_DOMAIN = "switch domain"


@dataclass(frozen=True, slots=True)
class FteAction:
    """The actions of an entry on its packets."""

    verdict: FteVerdict
    destinations: tuple[Object, ...] = ()
    """For FORWARD: flow tables and other receivers. Each of them gets the packet."""
    tag: int = 0
    """Flow tag for the completion, unless a later entry has a tag; 0 is none."""
    counters: tuple[FlowCounter, ...] = ()
    steps: tuple[Step, ...] = ()
    """Changes to the packet, in this order, before its delivery to the destinations."""
    metering: Metering | None = None
    """The meter that colours the packet, after these steps."""

    @property
    def references(self) -> tuple[Object, ...]:
        """All objects that the action refers to: destinations, counters, header contexts, meter.

        Reformats of vPort destinations are included.
        """
        contexts = (step for step in self.steps if isinstance(step, Object))
        of_targets = (each for target in self.vports for each in target.holds())
        meters = () if self.metering is None else (self.metering.aso,)
        return (*self.destinations, *self.counters, *contexts, *of_targets, *meters)

    @property
    def vports(self) -> list[VportTarget]:
        """The vPorts among the destinations."""
        return [target for target in self.destinations if isinstance(target, VportTarget)]

    @property
    def tables(self) -> list[FlowTable]:
        """The flow tables among the destinations."""
        return [target for target in self.destinations if isinstance(target, FlowTable)]

    @property
    def samplers(self) -> list[Sampler]:
        """The samplers among the destinations."""
        return [target for target in self.destinations if isinstance(target, Sampler)]


class VportTarget(Object):
    """A vPort, the uplink included, as a destination of an entry in a switch's tables."""

    __slots__ = ("may_return", "number", "port", "reformat")
    kind = "vPort"

    def __init__(self, number: int, port: int, reformat: PacketReformat | None = None) -> None:
        """Create the destination for vPort ``number`` of a physical port's switch.

        ``port`` is the number of the physical port on the board. ``reformat`` changes only the
        packets of this destination.
        """
        super().__init__()
        self.number = number
        self.port = port
        self.reformat = reformat
        self.may_return = False
        """Whether packets of the uplink may return to it."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """``reformat`` as a tuple of steps; empty without one."""
        return () if self.reformat is None else (self.reformat,)

    def holds(self) -> tuple[Object, ...]:
        return () if self.reformat is None else (self.reformat,)

    def __repr__(self) -> str:
        of = f" of port {self.port}" if self.port > 1 else ""
        return f"vPort {self.number:#x}{of}"


FDB_DEFAULT: Final = VportTarget(0, 0)
"""Destination of packets that no entry of an FDB matches. The packet's source determines the vPort:
the uplink for packets of vPorts, the manager for packets of the uplink.
"""


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


class StcJump(Object):
    """A destination inside a software-owned table: the entry after a meter."""

    __slots__ = ("address", "table")
    kind = "steering entry"

    def __init__(self, table: FlowTable, address: int) -> None:
        super().__init__()
        self.table = table
        self.address = address


class Sampler(Object):
    """A destination that sends packets to a table, each ``ratio``-th also to a second table."""

    __slots__ = ("_passed", "default", "level", "ratio", "sample")
    kind = "flow sampler"
    numbering = Numbering(lambda made: MAX_SAMPLERS)
    BASE_BYTES = 512

    def __init__(self, default: FlowTable, sample: FlowTable, ratio: int, level: int) -> None:
        """Create a sampler of ``level``, which counts like the level of a table."""
        super().__init__()
        self.default, self.sample = default, sample
        self.ratio, self.level = ratio, level
        self._passed = 0

    def about(self) -> dict[str, object]:
        return {"default": self.default.handle, "sample": self.sample.handle, "ratio": self.ratio}

    def holds(self) -> tuple[Object, ...]:
        return (self.default, self.sample)

    def outcome(self, octets: int, l2_bytes: int, now_ns: int) -> int:
        """Count the packet; return 1 for each ``ratio``-th one, which is a sample, else 0.

        Length and time are ignored.
        """
        self._passed = (self._passed + 1) % self.ratio
        return int(not self._passed)

    def tables(self, outcome: int) -> tuple[FlowTable, ...]:
        """Return the tables for an ``outcome``: the default one, for 1 also the sample table."""
        return (self.default, self.sample) if outcome else (self.default,)


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


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for a packet, and for all packets with the same matched fields."""

    deliveries: tuple[tuple[Object, int], ...]
    """Destinations other than tables, each with the last tag on the path."""
    counters: tuple[FlowCounter, ...]
    allowed: bool
    """Whether an entry allowed the packet, which continues as if the domain had no tables."""
    switched: bool
    """Whether the miss of a table hands the packet to the next domain."""
    missed: bool
    """Whether the packet ended without an entry: a default miss, too many steps, or no root."""
    rewrites: tuple[Steps | None, ...] = ()
    """Steps that change the packet, for each delivery; empty if no delivery changes it."""
    allowed_rewrites: Steps | None = None
    """Steps that change an allowed packet."""
    asks: Metering | Sampler | None = None
    """The meter or sampler that decides how the packet continues; no action has been taken yet."""
    parts: frozenset[Any] | None = frozenset()
    """Packet fields that software steering entries have read. The decision also holds for the next
    packet with equal values in these fields and in the fields that groups match. None: for no other
    packet."""


DECISIONS: Final = "flow table decisions"
"""The ledger's account of cached decisions."""
CACHED: Final = 4096
"""Maximum number of cached decisions in one domain."""
CACHED_ITEMS: Final = 1 << 16
"""Maximum total of deliveries, counters, changes and long packet fields in these decisions."""
_DECISION_BYTES: Final = 768
_ITEM_BYTES: Final = 64
_PART_BYTES: Final = 32
"""Bytes for a packet field that costs 1 to read."""
_LOG_PARTS_PER_ITEM: Final = 2


class FlowDomain:
    """The flow tables of one type from the packets' side: the root, and cached decisions."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        """Create a domain without tables; ``ledger`` has the accounts of the owning function."""
        self._ledger = ledger
        self.root: FlowTable | None = None
        self.demuxes = 0
        """Number of tables that distinguish the ports of a LAG."""
        self.underlays: dict[int, FlowTable] = {}
        """Root tables for the packets of underlay queue pairs, by QP number."""
        self.users: dict[Any, int] = {}
        """Packet fields that groups match or entries copy, with the number of their users."""
        self.key_cost = 0
        """Cost of reading these fields from a packet, in fields."""
        self.forwards_misses = False
        """Whether packets that miss in a table without a next one go to FDB_DEFAULT."""
        self.decisions: dict[Hashable, Decision] = {}
        self._items = self._held = 0
        self.software: Any = None
        """The memory of software-owned tables (:attr:`FlowTable.software`), or None."""
        self.age = 0
        """Generation of that memory at the last lookup."""
        self.learnt: set[Any] = set()
        """The fields in ``users`` that software steering entries have read since."""
        self.steps = 0
        """Cost of all packets so far, in steps of a round."""
        self.parser = PARSER
        """The optional headers that the device parses."""

    def keep(self, key: Hashable, decision: Decision) -> None:
        """Cache a decision under ``key`` and charge the ledger.

        Without space the decision is not kept. A full cache (CACHED decisions or CACHED_ITEMS
        items) is flushed first.
        """
        items = len(decision.deliveries) + len(decision.counters)
        items += sum(len(steps.changes) for steps in decision.rewrites if steps is not None)
        size = _DECISION_BYTES + _ITEM_BYTES * items + _PART_BYTES * self.key_cost
        items += self.key_cost >> _LOG_PARTS_PER_ITEM
        if len(self.decisions) >= CACHED or self._items + items > CACHED_ITEMS:
            self.flush()
        if self._ledger is not None:
            if not self._ledger.has_room(size):
                return
            self._ledger.hold(DECISIONS, size)
        self.decisions[key] = decision
        self._items += items
        self._held += size

    def flush(self) -> None:
        """Drop all cached decisions and credit the ledger.

        The next packets walk the tables again.
        """
        self.decisions.clear()
        if self._ledger is not None and self._held:
            self._ledger.give_back(DECISIONS, self._held)
        self._items = self._held = 0

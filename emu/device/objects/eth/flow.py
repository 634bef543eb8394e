"""Flow tables, their groups and entries: what they hold, and which entry a packet finds.

A table's indices are shared out to groups, which do not overlap; a packet finds the entry with the
lowest index that it matches. All entries of a group match the same fields, so a group is a
dictionary: tables are as large as drivers ask for (2**16 and more) and hold a few entries.

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
    from layouts.steering.flow_group import QueryFlowGroupOut
    from layouts.steering.flow_match import FteMatchParam
    from layouts.steering.flow_table import FlowTableContext

Key = tuple[int, ...]
"""The values of a group's fields, under its masks."""


class Matcher(Protocol):
    """What all entries of a group match (``emu.device.engine.eth.steering.criteria``)."""

    @property
    def masks(self) -> Mapping[str, int]:
        """By the fields' names; an entry's key has the values in this order."""

    @property
    def cost(self) -> int:
        """Cost of reading its fields of a packet, in outer fields."""

    @property
    def parts(self) -> frozenset[Any]:
        """The parts of a packet that decide its fields."""

    def key_of(self, values: Mapping[str, int]) -> Key:
        """An entry's key."""

    def key_at(self, place: int) -> Key | None:
        """The key of an entry by its place in the group; None where its values decide."""

    def values_of(self, param: FteMatchParam) -> Mapping[str, int]:
        """An entry's values, from its fte_match_param view."""

    def read(self, headers: Any) -> Key | None:
        """A packet's key; None when it does not have one of the fields."""


ACLS: Final = frozenset({FlowTableType.ESW_INGRESS_ACL, FlowTableType.ESW_EGRESS_ACL})
"""Types of which each vPort has tables of its own."""
SWITCHING: Final = ACLS | {FlowTableType.FDB}
"""Types of tables that are a switch's."""
SNIFFING: Final = frozenset({FlowTableType.SNIFFER_RX, FlowTableType.SNIFFER_TX})
"""Types of tables that copies of packets go through."""


MAX_SAMPLERS: Final = 1 << 12


class FteVerdict(Enum):
    """What an entry does with a packet."""

    FORWARD = "forward"
    DROP = "drop"
    ALLOW = "allow"


class Miss(Enum):
    """What a table does with a packet that no entry matches, when it has no table to go on to."""

    DEFAULT = "default"
    SWITCH_DOMAIN = "switch domain"


@dataclass(frozen=True, slots=True)
class FteAction:
    """What is done with the packets of an entry."""

    verdict: FteVerdict
    destinations: tuple[Object, ...] = ()
    """For FORWARD: flow tables, and whatever else packets are delivered to. All get the packet."""
    tag: int = 0
    """What the completion tells of a packet, if no entry after this one has a tag; 0 is none."""
    counters: tuple[FlowCounter, ...] = ()
    steps: tuple[Step, ...] = ()
    """What is changed in a packet, in this order, before it goes to the destinations."""
    metering: Metering | None = None
    """The meter that gives a packet its colour, after these steps."""

    @property
    def references(self) -> tuple[Object, ...]:
        """All objects that it refers to."""
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
    """A vPort as a destination of an entry in a switch's tables, the cable's included."""

    __slots__ = ("number", "port", "reformat")
    kind = "vPort"

    def __init__(self, number: int, port: int, reformat: PacketReformat | None = None) -> None:
        """``port`` is the physical port, of those of the board, whose switch has the vPort.

        ``reformat`` is what is done with the packets of this destination alone.
        """
        super().__init__()
        self.number = number
        self.port = port
        self.reformat = reformat

    @property
    def steps(self) -> tuple[Step, ...]:
        """The same as steps."""
        return () if self.reformat is None else (self.reformat,)

    def holds(self) -> tuple[Object, ...]:
        return () if self.reformat is None else (self.reformat,)

    def __repr__(self) -> str:
        of = f" of port {self.port}" if self.port > 1 else ""
        return f"vPort {self.number:#x}{of}"


class FlowTable(Object):
    """A flow table; a miss leads to tables of higher levels only."""

    __slots__ = (
        "ctx", "groups", "is_demux", "level", "miss", "roots", "size", "software", "table_type",
        "vport",
    )  # fmt: skip
    kind = "flow table"
    numbering = Numbering(limit_of("log_max_ft_num"))
    BASE_BYTES = 1024

    def __init__(
        self,
        ctx: FlowTableContext,
        miss: FlowTable | Miss,
        table_type: FlowTableType = FlowTableType.NIC_RX,
        vport: int = 0,
        is_demux: bool = False,
    ) -> None:
        """``vport`` is the number of the vPort whose packets it is for, if it is an ACL.

        ``is_demux``: the ports of a LAG are told apart there.
        """
        super().__init__()
        self.is_demux = is_demux
        self.vport = vport
        self.level = ctx.level
        self.size = 1 << ctx.log_size
        """The number of indices that its groups may share out."""
        self.miss = miss
        self.table_type = table_type
        self.ctx = ctx
        self.groups: list[FlowGroup] = []
        """By index."""
        self.software: Any = None
        """What knows the entries of a table that software owns, and finds a packet's way there
        (``emu.device.engine.eth.ste.walk.SteeringMemory``); None for one that firmware owns."""
        self.roots: tuple[int, int] | None = None
        """The addresses of its first entries then: the second one is for what vPorts send."""

    def about(self) -> dict[str, object]:
        about = {
            "type": self.table_type.name, "level": self.level, "size": self.size,
            "groups": len(self.groups),
            "miss": self.miss.handle if isinstance(self.miss, FlowTable) else self.miss.value,
        }  # fmt: skip
        return about | {"vport": self.vport} if self.table_type in ACLS else about

    def holds(self) -> tuple[Object, ...]:
        return (self.miss,) if isinstance(self.miss, FlowTable) else ()

    def unlink(self) -> None:
        """Drop the groups, which refer back to it, and what knows all tables."""
        self.groups.clear()
        self.software = None

    def entry_at(self, index: int) -> FlowEntry | None:
        """The entry with this index."""
        after = bisect_right(self.groups, index, key=lambda group: group.first)
        return self.groups[after - 1].entries.get(index) if after else None

    def is_taken(self, first: int, last: int) -> bool:
        """Whether a group has one of these indices."""
        after = bisect_left(self.groups, first, key=lambda group: group.first)
        before = self.groups[after - 1] if after else None
        if before is not None and before.last >= first:
            return True
        return after < len(self.groups) and self.groups[after].first <= last


class StcJump(Object):
    """A destination within a table of software: where a packet goes on that has been metered."""

    __slots__ = ("address", "table")
    kind = "steering entry"

    def __init__(self, table: FlowTable, address: int) -> None:
        super().__init__()
        self.table = table
        self.address = address


class Sampler(Object):
    """A destination of entries: packets go to a table, each ``ratio``-th to another one as well."""

    __slots__ = ("_passed", "default", "level", "ratio", "sample")
    kind = "flow sampler"
    numbering = Numbering(lambda made: MAX_SAMPLERS)
    BASE_BYTES = 512

    def __init__(self, default: FlowTable, sample: FlowTable, ratio: int, level: int) -> None:
        """``level`` is as of a table."""
        super().__init__()
        self.default, self.sample = default, sample
        self.ratio, self.level = ratio, level
        self._passed = 0

    def about(self) -> dict[str, object]:
        return {"default": self.default.handle, "sample": self.sample.handle, "ratio": self.ratio}

    def holds(self) -> tuple[Object, ...]:
        return (self.default, self.sample)

    def answer(self, octets: int, l2_bytes: int, now_ns: int) -> int:
        """Whether a packet is a sample."""
        self._passed = (self._passed + 1) % self.ratio
        return int(not self._passed)

    def tables(self, answer: int) -> tuple[FlowTable, ...]:
        """Where a packet goes."""
        return (self.default, self.sample) if answer else (self.default,)


BySource = dict[FlowSource, "list[FlowEntry]"]
"""Entries with one key by where their packets come from, the lowest index first: a packet finds the
lowest one of those for its source, and of those for any."""
_NONE: Final = (None,)


class FlowGroup(Object):
    """Some of a table's indices, ``first`` to ``last``, and what all entries there match."""

    __slots__ = ("by_key", "criteria", "definer", "entries", "first", "last", "match", "table")
    kind = "flow group"
    numbering = Numbering(limit_of("log_max_flow"))
    BASE_BYTES = 6144
    """With criteria of 20 fields, and the view that a query returns."""

    def __init__(
        self,
        table: FlowTable,
        criteria: Matcher,
        match: QueryFlowGroupOut,
        definer: MatchDefiner | None = None,
    ) -> None:
        """``match`` is what a query returns; ``definer`` is what the criteria are from, if any."""
        super().__init__()
        self.table = table
        self.first = match.start_flow_index
        self.last = match.end_flow_index
        self.criteria = criteria
        self.definer = definer
        self.match = match
        self.entries: dict[int, FlowEntry] = {}
        """By index."""
        self.by_key: dict[Key, BySource] = {}

    def about(self) -> dict[str, object]:
        return {
            "table": self.table.handle, "first": self.first, "last": self.last,
            "entries": len(self.entries), "masks": self.criteria.masks,
        }  # fmt: skip

    def holds(self) -> tuple[Object, ...]:
        return (self.table,) if self.definer is None else (self.table, self.definer)

    def key_of(self, index: int, param: FteMatchParam) -> Key:
        """The key of an entry at this index with these values."""
        key = self.criteria.key_at(index - self.first)
        return self.criteria.key_of(self.criteria.values_of(param)) if key is None else key

    def add(self, entry: FlowEntry) -> None:
        """Put an entry at its index, which must be free."""
        self.entries[entry.index] = entry
        alike = self.by_key.setdefault(entry.key, {}).setdefault(entry.source, [])
        insort(alike, entry, key=lambda each: each.index)

    def discard(self, entry: FlowEntry) -> None:
        """Take an entry out."""
        del self.entries[entry.index]
        alike = self.by_key[entry.key]
        of_source = alike[entry.source]
        del of_source[bisect_left(of_source, entry.index, key=lambda each: each.index)]
        if not of_source:
            del alike[entry.source]
        if not alike:
            del self.by_key[entry.key]

    def unlink(self) -> None:
        """Drop the entries, which refer back to it."""
        self.entries.clear()
        self.by_key.clear()

    def find(self, headers: Any) -> FlowEntry | None:
        """The packet's entry in this group."""
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
    """One flow table entry (FTE). Drivers name it by its table and index; the handle is ours."""

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
        """``ctx`` is what a query returns: the flow_context with its lists.

        ``source`` is where the packets in a switch come from that it is for.
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
    """What happens to a packet, and to all others with the same matched parts."""

    deliveries: tuple[tuple[Object, int], ...]
    """Destinations that are no tables, each with the tag of the last entry that had one."""
    counters: tuple[FlowCounter, ...]
    allowed: bool
    """An entry let it pass; it goes on as in a domain without tables."""
    switched: bool
    """A table's miss hands it to the next domain."""
    missed: bool
    """It came to an end without an entry: by a default miss, too many steps, or without a root."""
    rewrites: tuple[Steps | None, ...] = ()
    """For each delivery the steps that change the packet; empty when none of them does."""
    allowed_rewrites: Steps | None = None
    """Those that change the packet that has been let pass."""
    asks: Metering | Sampler | None = None
    """What decides how it goes on, besides the packet: nothing has happened to the packet yet."""
    parts: frozenset[Any] | None = frozenset()
    """The parts of a packet that entries of software have read. It is the same for the next packet
    with the same ones, and the same parts that groups match; None: for no other one."""


DECISIONS: Final = "flow table decisions"
"""The ledger's account of decisions that are kept."""
CACHED: Final = 4096
"""Decisions that are kept in one domain."""
CACHED_ITEMS: Final = 1 << 16
"""Deliveries, counters, changes, and parts of packets that are long, in all of these."""
_DECISION_BYTES: Final = 768
_ITEM_BYTES: Final = 64
_PART_BYTES: Final = 32
"""Of a part of a packet that costs 1 to find."""
_LOG_PARTS_PER_ITEM: Final = 2


class FlowDomain:
    """The flow tables of one type as packets see them: the root, and the decisions so far."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        """``ledger`` has the accounts of the function whose tables they are."""
        self._ledger = ledger
        self.root: FlowTable | None = None
        self.demuxes = 0
        """How many tables there are that tell the ports of a LAG apart."""
        self.underlays: dict[int, FlowTable] = {}
        """Where the packets of underlay queue pairs begin, by their numbers."""
        self.users: dict[Any, int] = {}
        """The parts of packets that groups match or entries copy, and how many of them each."""
        self.key_cost = 0
        """Cost of finding these parts of a packet, in fields that are read."""
        self.decisions: dict[Hashable, Decision] = {}
        self._items = self._held = 0
        self.software: Any = None
        """What knows the entries of tables that software owns, as :attr:`FlowTable.software`, if
        there has been one."""
        self.age = 0
        """How old that was when it was asked last."""
        self.learnt: set[Any] = set()
        """The parts among ``users`` that its entries have read since."""
        self.steps = 0
        """What packets have cost so far, in steps of a round."""
        self.parser = PARSER
        """What the device looks for in packets."""

    def keep(self, key: Hashable, decision: Decision) -> None:
        """Keep a decision, if the function may use as much memory; forget all others if need be."""
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
        """Forget all decisions."""
        self.decisions.clear()
        if self._ledger is not None and self._held:
            self._ledger.give_back(DECISIONS, self._held)
        self._items = self._held = 0

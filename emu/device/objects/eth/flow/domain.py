"""The flow tables of one type from the packets' side, and cached decisions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

from emu.device.objects.eth.flow.table import FlowTable
from emu.device.objects.eth.flow.targets import Sampler
from emu.device.objects.eth.flow_counter import FlowCounter
from emu.device.objects.eth.flow_meter import Metering
from emu.device.objects.eth.parser import PARSER, Parser
from emu.device.objects.eth.reshape import Steps
from emu.device.objects.ledger import Ledger
from emu.device.objects.object import Object


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
MAX_HELD: Final = 64 << 20
"""Bytes of the decisions in all domains of a function, some 80,000: a command may drop them all."""
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

    def parse_by(self, parser: Parser) -> None:
        """Use another parser, and drop all cached decisions."""
        self.parser = parser
        self.flush()

    def keep(self, key: Hashable, decision: Decision) -> None:
        """Cache a decision under ``key`` and charge the ledger.

        Without space, or beyond MAX_HELD, the decision is not kept. A full cache (CACHED decisions
        or CACHED_ITEMS items) is flushed first.
        """
        items = len(decision.deliveries) + len(decision.counters)
        items += sum(len(steps.changes) for steps in decision.rewrites if steps is not None)
        size = _DECISION_BYTES + _ITEM_BYTES * items + _PART_BYTES * self.key_cost
        items += self.key_cost >> _LOG_PARTS_PER_ITEM
        if len(self.decisions) >= CACHED or self._items + items > CACHED_ITEMS:
            self.flush()
        if self._ledger is not None:
            if self._ledger.held(DECISIONS) + size > MAX_HELD or not self._ledger.has_room(size):
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

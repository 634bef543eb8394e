"""The ways of packets through a subnet, as the switches' tables lead them.

A way is found once and kept until a table, a link or a port's state changes; a packet adds to the
way's counts alone, and the counters of the ports that it passes are added up when somebody asks.

The tables are a guest's. What is kept is bounded by the links that it passes, and so is what is
still to be added up: whoever sends by one way too many does that, and is charged for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from emu.device.rounds.budget import Budget
from emu.device.rounds.costs import STEPS_PER_LINK_COUNTED, STEPS_PER_LINK_FOUND
from emu.server.net.ib.subnet.nodes import NO_PORT, Cables, Place
from layouts.enums import PortState
from layouts.wire.bth import MULTICAST_LID

MAX_LINKS: Final = 64
"""Of a way: no subnet is so wide, and tables may lead in circles."""
MAX_KEPT: Final = 1 << 16
"""Links of all ways that are kept."""
MAX_BRANCHES: Final = 4096
"""Links that a multicast packet passes."""
MAX_OWED: Final = 2048
"""Links of ways whose packets are still to be added up."""
NOWHERE: Final = -1

RELAY_ERRORS: Final = "port_rcv_switch_relay_errors"
DISCARDS: Final = "port_xmit_discards"
LINK_DOWNED: Final = "link_downed_counter"

_Names = tuple[str, str, str]
"""Counters of all packets, of those of a kind, and of their data."""


def _names(cast: str) -> tuple[_Names, _Names]:
    """The counters for unicast or multicast packets: sent, received."""
    sent, received = (
        (f"port_{way}_packets", f"port_{cast}_{way}_packets", f"port_{way}_data")
        for way in ("xmit", "rcv")
    )
    return sent, received


_NAMES: Final = (_names("unicast"), _names("multicast"))


@dataclass(slots=True)
class Path:
    """Where a packet goes, and what has gone there."""

    end: int
    """The node that gets it; NOWHERE when it is dropped."""
    sent: tuple[Place, ...]
    """The ports by which it leaves nodes, in this order, and then those by which it enters."""
    received: tuple[Place, ...]
    dropped: tuple[int, int, str] | None = None
    """The port that drops it, and the counter that says why."""
    packets: int = 0
    octets: int = 0


@dataclass(slots=True)
class Tree:
    """Where a multicast packet goes; as above."""

    ends: tuple[int, ...]
    sent: tuple[Place, ...]
    received: tuple[Place, ...]
    dropped: None = None
    packets: int = 0
    octets: int = 0


class Routes:
    """Finds ways, and keeps the ports' counters."""

    def __init__(self, cables: Cables, round_: Budget) -> None:
        self._cables = cables
        self._round = round_
        self._generation = -1
        self._ways: dict[tuple[Place, int], Path] = {}
        self._trees: dict[tuple[int, int], Tree] = {}
        self._kept = 0
        self._owing: list[Path | Tree] = []
        """Links that packets have passed since the links' counters were added up."""
        self._owed = 0
        self.counts: dict[Place, Counter[str]] = {}
        """By port, the counters of PortCounters and PortCountersExtended."""

    def way(self, place: Place, lid: int) -> Path:
        """The way of packets for a LID out of an adapter's port, or of a switch itself: port 0."""
        self._renew()
        way = self._ways.get((place, lid))
        if way is None:
            way = self._ways[place, lid] = self._walk(*place, lid)
            self._keep(way)
        return way

    def tree(self, node: int, lid: int) -> Tree:
        """The ways of packets for a multicast LID from an adapter's port 1."""
        self._renew()
        tree = self._trees.get((node, lid))
        if tree is None:
            tree = self._trees[node, lid] = self._spread(node, lid)
            self._keep(tree)
        return tree

    def passes(self, way: Path | Tree, octets: int, packets: int = 1) -> None:
        """Count packets that go by a way; ``octets`` are those of all of them."""
        if not way.packets:
            if self._owed > MAX_OWED:
                self.settle()
            self._owing.append(way)
            self._owed += len(way.sent) + 1
        way.packets += packets
        way.octets += octets

    def _keep(self, way: Path | Tree) -> None:
        self._kept += len(way.sent) + 1
        self._round.charge(len(way.sent) * STEPS_PER_LINK_FOUND)

    def _renew(self) -> None:
        if self._generation != self._cables.generation or self._kept >= MAX_KEPT:
            self._ways.clear()
            self._trees.clear()
            self._kept = 0
            self._generation = self._cables.generation

    def settle(self) -> None:
        """Add what has gone along the ways to the counters of the ports."""
        self._round.charge(self._owed * STEPS_PER_LINK_COUNTED)
        ways, self._owing, self._owed = self._owing, [], 0
        for way in ways:
            sent, received = _NAMES[isinstance(way, Tree)]
            for places, names in ((way.sent, sent), (way.received, received)):
                self._add(places, names, way)
            if way.dropped is not None:
                node, port, why = way.dropped
                self.count(node, port, why, way.packets)
            way.packets = way.octets = 0

    def count(self, node: int, port: int, name: str, by: int = 1) -> None:
        """Add to a counter of a port."""
        self.counts.setdefault((node, port), Counter())[name] += by

    def _add(self, places: tuple[Place, ...], names: _Names, way: Path | Tree) -> None:
        all_packets, packets, data = names
        for place in places:
            counts = self.counts.get(place)
            if counts is None:
                counts = self.counts[place] = Counter()
            counts[all_packets] += way.packets
            counts[packets] += way.packets
            counts[data] += way.octets // 4

    def _walk(self, node: int, port: int, lid: int) -> Path:
        cables = self._cables
        sent: list[Place] = []
        received: list[Place] = []
        entry, exit_ = 0, port or self._exit(node, lid)
        for _ in range(MAX_LINKS):
            if exit_ in (0, NO_PORT) or exit_ == entry:
                why = (node, entry, RELAY_ERRORS)
                return Path(NOWHERE, tuple(sent), tuple(received), why)
            far = self._across(node, exit_)
            if far is None:
                return Path(NOWHERE, tuple(sent), tuple(received), (node, exit_, DISCARDS))
            sent.append(self._back(far))
            received.append(far)
            node, entry = far
            there = cables.nodes[node]
            if there.has_lid(entry, lid):
                return Path(node, tuple(sent), tuple(received))
            if not there.is_switch:
                return Path(NOWHERE, tuple(sent), tuple(received))
            exit_ = self._exit(node, lid)
        return Path(NOWHERE, tuple(sent), tuple(received), (node, entry, RELAY_ERRORS))

    def _exit(self, node: int, lid: int) -> int:
        tables = self._cables.nodes[node].tables
        return NO_PORT if tables is None else tables.exit_to(lid)

    def _across(self, node: int, port: int) -> Place | None:
        """The other end of a link that packets pass: this end is active, the other one armed."""
        cables = self._cables
        far = cables.peer(node, port)
        if far is None or not cables.is_active(node, port):
            return None
        there = cables.nodes[far[0]].ports[far[1]].info.port_state
        return far if there in (PortState.ARMED, PortState.ACTIVE) else None

    def _back(self, far: Place) -> Place:
        """The near end of a link: the cable's own value, which all ways share."""
        near = self._cables.nodes[far[0]].peers[far[1]]
        assert near is not None  # a packet has just passed it
        return near

    def _spread(self, node: int, lid: int) -> Tree:
        """A switch sends it by all ports of its mask but the one by which it has come.

        By each port once, however often it comes.
        """
        ends: list[int] = []
        sent: list[Place] = []
        received: list[Place] = []
        used: dict[int, int] = {}
        todo = [(node, 1)]
        while todo and len(sent) < MAX_BRANCHES:
            far = self._across(*todo.pop())
            if far is None:
                continue
            sent.append(self._back(far))
            received.append(far)
            there = self._cables.nodes[far[0]]
            if there.tables is None:
                ends.append(far[0])
                continue
            mask = there.tables.multicast.get(lid - MULTICAST_LID, 0)
            mask &= (2 << there.num_ports) - 2 & ~(1 << far[1])
            todo += [(far[0], port) for port in _bits(mask & ~used.get(far[0], 0))]
            used[far[0]] = used.get(far[0], 0) | mask
        return Tree(tuple(ends), tuple(sent), tuple(received))


def _bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, the lowest first."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1

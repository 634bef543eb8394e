"""The ways of packets through a subnet, as the switches' tables lead them.

A way is found once and kept until a table, a link or a port's state changes; a packet adds to the
way's counts alone, and the counters of the ports that it passes are added up when somebody asks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from emu.server.net.ib.subnet.nodes import NO_PORT, Cables, Place
from layouts.enums import PortState
from layouts.wire.bth import MULTICAST_LID

MOST_LINKS: Final = 64
"""Of a way: no subnet is so wide, and tables may lead in circles."""
MOST_WAYS: Final = 4096
MOST_BRANCHES: Final = 4096
"""Of a multicast packet."""
NOWHERE: Final = -1

RELAY_ERRORS: Final = "port_rcv_switch_relay_errors"
DISCARDS: Final = "port_xmit_discards"
LINK_DOWNED: Final = "link_downed_counter"


@dataclass(slots=True)
class Way:
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

    def __init__(self, cables: Cables) -> None:
        self._cables = cables
        self._generation = -1
        self._ways: dict[tuple[Place, int], Way] = {}
        self._trees: dict[tuple[int, int], Tree] = {}
        self.counts: dict[Place, Counter[str]] = {}
        """By port, the counters of PortCounters and PortCountersExtended."""

    def way(self, place: Place, lid: int) -> Way:
        """The way of packets for a LID out of an adapter's port, or of a switch itself: port 0."""
        self._renew()
        way = self._ways.get((place, lid))
        if way is None:
            way = self._ways[place, lid] = self._walk(*place, lid)
        return way

    def tree(self, node: int, lid: int) -> Tree:
        """The ways of packets for a multicast LID from an adapter's port 1."""
        self._renew()
        tree = self._trees.get((node, lid))
        if tree is None:
            tree = self._trees[node, lid] = self._spread(node, lid)
        return tree

    def _renew(self) -> None:
        if (
            self._generation != self._cables.generation
            or len(self._ways) + len(self._trees) >= MOST_WAYS
        ):
            self.settle()
            self._ways.clear()
            self._trees.clear()
            self._generation = self._cables.generation

    def settle(self) -> None:
        """Add what has gone along the ways to the counters of the ports."""
        ways: list[Way | Tree] = [*self._ways.values(), *self._trees.values()]
        for way in ways:
            if not way.packets:
                continue
            cast = "multicast" if isinstance(way, Tree) else "unicast"
            for places, direction in ((way.sent, "xmit"), (way.received, "rcv")):
                for place in places:
                    self._add(place, direction, cast, way.packets, way.octets)
            if way.dropped is not None:
                node, port, why = way.dropped
                self.count(node, port, why, way.packets)
            way.packets = way.octets = 0

    def count(self, node: int, port: int, name: str, by: int = 1) -> None:
        """Add to a counter of a port."""
        self.counts.setdefault((node, port), Counter())[name] += by

    def _add(self, place: Place, direction: str, cast: str, packets: int, octets: int) -> None:
        counts = self.counts.setdefault(place, Counter())
        counts[f"port_{direction}_packets"] += packets
        counts[f"port_{cast}_{direction}_packets"] += packets
        counts[f"port_{direction}_data"] += octets // 4

    def _walk(self, node: int, port: int, lid: int) -> Way:
        cables = self._cables
        sent: list[Place] = []
        received: list[Place] = []
        entry, exit_ = 0, port or self._exit(node, lid)
        for _ in range(MOST_LINKS):
            if exit_ in (0, NO_PORT) or exit_ == entry:
                why = (node, entry, RELAY_ERRORS)
                return Way(NOWHERE, tuple(sent), tuple(received), why)
            far = self._across(node, exit_)
            if far is None:
                return Way(NOWHERE, tuple(sent), tuple(received), (node, exit_, DISCARDS))
            sent.append((node, exit_))
            received.append(far)
            node, entry = far
            there = cables.nodes[node]
            if there.has_lid(entry, lid):
                return Way(node, tuple(sent), tuple(received))
            if not there.is_switch:
                return Way(NOWHERE, tuple(sent), tuple(received))
            exit_ = self._exit(node, lid)
        return Way(NOWHERE, tuple(sent), tuple(received), (node, entry, RELAY_ERRORS))

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

    def _spread(self, node: int, lid: int) -> Tree:
        """A switch sends it by all ports of its mask but the one by which it has come."""
        ends: list[int] = []
        sent: list[Place] = []
        received: list[Place] = []
        seen: set[Place] = set()
        todo = [(node, 1)]
        while todo and len(seen) < MOST_BRANCHES:
            here, exit_ = todo.pop()
            far = self._across(here, exit_)
            if far is None or far in seen:
                continue
            seen.add(far)
            sent.append((here, exit_))
            received.append(far)
            there = self._cables.nodes[far[0]]
            if there.tables is None:
                ends.append(far[0])
                continue
            mask = there.tables.multicast.get(lid - MULTICAST_LID, 0)
            exits = (port for port in range(1, there.num_ports + 1) if mask >> port & 1)
            todo += [(far[0], port) for port in exits if port != far[1]]
        return Tree(tuple(ends), tuple(sent), tuple(received))

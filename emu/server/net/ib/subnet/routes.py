"""Routes of packets through a subnet, as the switches' tables define them.

A route is found once and kept until a table, a link or a port's state changes. A packet adds only
to its route's counts; the counters of the ports are summed on request.

A guest sets the tables. The kept routes and the unsummed routes are bounded by their number of
links. The sender that exceeds the latter bound pays for the summation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from emu.device.rounds.budget import Budget
from emu.device.rounds.costs import STEPS_PER_LINK_COUNTED, STEPS_PER_LINK_FOUND
from emu.server.net.ib.subnet.nodes import NO_PORT, Cables, PortPosition
from layouts.enums.vport import PortState
from layouts.wire.bth import MULTICAST_LID

MAX_LINKS: Final = 64
"""Maximum number of links of a route; tables may contain loops."""
MAX_KEPT: Final = 1 << 16
"""Maximum number of links of all kept routes."""
MAX_BRANCHES: Final = 4096
"""Maximum number of links of a multicast tree."""
MAX_EXITS: Final = 2 * MAX_BRANCHES
"""Maximum number of ports that a multicast tree tries; links behind them may be unusable."""
MAX_OWED: Final = 2048
"""Maximum number of links of routes with unsummed packets."""
NOWHERE: Final = -1

RELAY_ERRORS: Final = "port_rcv_switch_relay_errors"
DISCARDS: Final = "port_xmit_discards"
LINK_DOWNED: Final = "link_downed_counter"

_Names = tuple[str, str, str]
"""Counters of all packets, of unicast or multicast packets, and of data."""


def _names(cast: str) -> tuple[_Names, _Names]:
    """Return the counters for unicast or multicast packets: sent, received."""
    sent, received = (
        (f"port_{direction}_packets", f"port_{cast}_{direction}_packets", f"port_{direction}_data")
        for direction in ("xmit", "rcv")
    )
    return sent, received


_NAMES: Final = (_names("unicast"), _names("multicast"))


@dataclass(slots=True)
class Path:
    """Route of unicast packets, and its unsummed counts."""

    end: int
    """Node that receives the packets; NOWHERE when they are dropped."""
    sent: tuple[PortPosition, ...]
    """Output ports in order along the route; ``received`` has the input ports."""
    received: tuple[PortPosition, ...]
    dropped: tuple[int, int, str] | None = None
    """Port that drops the packets, and the counter of the reason."""
    packets: int = 0
    octets: int = 0


@dataclass(slots=True)
class MulticastTree:
    """Routes of a multicast packet, with the fields of :class:`Path`."""

    ends: tuple[int, ...]
    sent: tuple[PortPosition, ...]
    received: tuple[PortPosition, ...]
    dropped: None = None
    packets: int = 0
    octets: int = 0


class Routes:
    """Finds routes, and keeps the ports' counters."""

    def __init__(self, cables: Cables, round_: Budget) -> None:
        self._cables = cables
        self._round = round_
        self._generation = -1
        self._paths: dict[tuple[PortPosition, int], Path] = {}
        self._trees: dict[tuple[int, int], MulticastTree] = {}
        self._kept = 0
        self._owing: list[Path | MulticastTree] = []
        """Routes with packets that are not yet in the ports' counters."""
        self._owed = 0
        self.counts: dict[PortPosition, Counter[str]] = {}
        """Counters of PortCounters and PortCountersExtended, by port."""

    def route(self, place: PortPosition, lid: int) -> Path:
        """Return the route for a LID from an adapter's port, or from a switch itself: port 0.

        A route without a receiver ends at NOWHERE; it names the port that drops, if that counts.
        """
        self._renew()
        path = self._paths.get((place, lid))
        if path is None:
            path = self._paths[place, lid] = self._walk(*place, lid)
            self._keep(path)
        return path

    def tree(self, node: int, lid: int) -> MulticastTree:
        """Return the tree for a multicast LID from an adapter's port 1; ``ends`` are adapters."""
        self._renew()
        tree = self._trees.get((node, lid))
        if tree is None:
            tree = self._trees[node, lid] = self._spread(node, lid)
            self._keep(tree)
        return tree

    def passes(self, path: Path | MulticastTree, octets: int) -> None:
        """Count a packet of ``octets`` bytes on a route.

        The ports' counters follow at :meth:`settle`, here only above MAX_OWED links.
        """
        if not path.packets:
            if self._owed > MAX_OWED:
                self.settle()
            self._owing.append(path)
            self._owed += len(path.sent) + 1
        path.packets += 1
        path.octets += octets

    def _keep(self, path: Path | MulticastTree) -> None:
        """Add a new route's links to the kept ones, and charge the budget for the search."""
        self._kept += len(path.sent) + 1
        self._round.charge(len(path.sent) * STEPS_PER_LINK_FOUND)

    def _renew(self) -> None:
        """Forget all kept routes after a change in the subnet, or at MAX_KEPT links."""
        if self._generation != self._cables.generation or self._kept >= MAX_KEPT:
            self._paths.clear()
            self._trees.clear()
            self._kept = 0
            self._generation = self._cables.generation

    def settle(self) -> None:
        """Add the routes' counts to the counters of the ports; the budget is charged."""
        self._round.charge(self._owed * STEPS_PER_LINK_COUNTED)
        paths, self._owing, self._owed = self._owing, [], 0
        for path in paths:
            sent, received = _NAMES[isinstance(path, MulticastTree)]
            for places, names in ((path.sent, sent), (path.received, received)):
                self._add(places, names, path)
            if path.dropped is not None:
                node, port, why = path.dropped
                self.count(node, port, why, path.packets)
            path.packets = path.octets = 0

    def count(self, node: int, port: int, name: str, by: int = 1) -> None:
        """Add to a counter of a port."""
        self.counts.setdefault((node, port), Counter())[name] += by

    def _add(
        self, places: tuple[PortPosition, ...], names: _Names, path: Path | MulticastTree
    ) -> None:
        """Add a route's packets and 4-byte words of data to the named counters of each port."""
        all_packets, packets, data = names
        for place in places:
            counts = self.counts.get(place)
            if counts is None:
                counts = self.counts[place] = Counter()
            counts[all_packets] += path.packets
            counts[packets] += path.packets
            counts[data] += path.octets // 4

    def _walk(self, node: int, port: int, lid: int) -> Path:
        """Return the route from a port, or from a switch itself, through the switches' tables.

        No table entry, the port of arrival, and MAX_LINKS are dropped as RELAY_ERRORS. An unusable
        link is dropped as DISCARDS. An adapter without the LID drops uncounted.
        """
        cables = self._cables
        sent: list[PortPosition] = []
        received: list[PortPosition] = []
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
        """Return a switch's output port for a LID; NO_PORT for an adapter or an unknown LID."""
        tables = self._cables.nodes[node].tables
        return NO_PORT if tables is None else tables.exit_to(lid)

    def _across(self, node: int, port: int) -> PortPosition | None:
        """Return the other end of a usable link: this end ACTIVE, the other ARMED or ACTIVE.

        None if the link is not usable.
        """
        cables = self._cables
        far = cables.peer(node, port)
        if far is None or not cables.is_active(node, port):
            return None
        there = cables.nodes[far[0]].ports[far[1]].info.port_state
        return far if there in (PortState.ARMED, PortState.ACTIVE) else None

    def _back(self, far: PortPosition) -> PortPosition:
        """Return the near end of a link as the cable's own value, to share one object."""
        near = self._cables.nodes[far[0]].peers[far[1]]
        assert near is not None  # a packet has just passed it
        return near

    def _spread(self, node: int, lid: int) -> MulticastTree:
        """Return the tree of a multicast LID, with at most MAX_BRANCHES links.

        A switch forwards to all ports of its mask except the input port, and to each port only
        once. The budget is charged for unusable links; MAX_EXITS bounds them.
        """
        ends: list[int] = []
        sent: list[PortPosition] = []
        received: list[PortPosition] = []
        used: dict[int, int] = {}
        todo = [(node, 1)]
        tries = 0
        while todo and len(sent) < MAX_BRANCHES and tries < MAX_EXITS:
            tries += 1
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
            mask &= there.cabled & ~(1 << far[1])  # a manager may set the bits of all 254 ports
            todo += [(far[0], port) for port in _bits(mask & ~used.get(far[0], 0))]
            used[far[0]] = used.get(far[0], 0) | mask
        self._round.charge((tries - len(sent)) * STEPS_PER_LINK_FOUND)
        return MulticastTree(tuple(ends), tuple(sent), tuple(received))


def _bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the set bits, lowest first."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1

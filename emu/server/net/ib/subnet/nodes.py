"""The nodes of a simulated subnet, the cables between them, and the resulting link states.

A switch's port 0 is its management port (IBTA 18.2.4). A node that stands for a guest's function
uses the function's own port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from emu.device.port.base import NODE_DESCRIPTION_BYTES
from emu.device.port.ib.endport import EndPort
from emu.device.port.ib.managed import ManagedPort
from emu.device.port.ib.port import DEFAULT_PKEY, PKEY_TABLE_ENTRIES
from emu.server.net.ib.subnet.topology import DEFAULT_RATE, NodeLine, SubnetTopology
from layouts.enums.vport import PhysState, PortState
from layouts.wire.bth import MULTICAST_LID
from layouts.wire.mads import NodeType, port_info, switch_info

PortPosition = tuple[int, int]
"""Number of a node, and number of its port."""
NO_PORT: Final = 0xFF
"""Entry of a forwarding table that drops (IBTA 14.2.5.10)."""
MULTICAST_LIDS: Final = 1024
"""MulticastFDBCap of each switch."""
_LIFE_TIME: Final = 18
_ACTIVE: Final = PortState.ACTIVE


@dataclass(slots=True)
class SwitchTables:
    """Values that a manager sets in a switch, besides those of its ports."""

    info: switch_info
    linear: bytearray = field(default_factory=bytearray)
    """Output port of each LID, up to the last block that was set."""
    multicast: dict[int, int] = field(default_factory=dict)
    """Output ports of each multicast LID, as a mask."""

    def exit_to(self, lid: int) -> int:
        """Return the output port for a LID; NO_PORT drops.

        NO_PORT is also for LIDs above LinearFDBTop and for those never set.
        """
        is_known = lid < len(self.linear) and lid <= self.info.linear_fdb_top
        return self.linear[lid] if is_known else NO_PORT


@dataclass(slots=True)
class SimNode:
    """A switch or a channel adapter."""

    number: int
    line: NodeLine
    num_ports: int
    ports: list[ManagedPort]
    """Ports by number; entry 0 of a channel adapter repeats its port 1."""
    peers: list[PortPosition | None]
    """Other end of each port's cable."""
    cabled: int = 0
    """Mask of the ports with a cable."""
    tables: SwitchTables | None = None
    cut: set[int] = field(default_factory=set)
    """Ports with a cut cable."""
    function: int | None = None
    """GUID of the guest's function that the node stands for."""

    def plug(self, port: int, far: PortPosition) -> None:
        """Plug a cable into a port; ``far`` is its other end."""
        self.peers[port] = far
        self.cabled |= 1 << port

    @property
    def is_switch(self) -> bool:
        """Whether the node forwards packets."""
        return self.tables is not None

    @property
    def description(self) -> bytes:
        """The node's NodeDescription, cut to 63 bytes and padded with zeros to 64."""
        text = self.line.description.encode()[: NODE_DESCRIPTION_BYTES - 1]
        return text.ljust(NODE_DESCRIPTION_BYTES, b"\0")

    def port_guid(self, number: int) -> int:
        """Return a port's GUID; all ports of a switch have the node's."""
        return self.line.guid + (0 if self.is_switch else number)

    def end(self, entry: int) -> ManagedPort:
        """Return the port with the LID for packets that arrive at a port."""
        return self.ports[0 if self.is_switch else entry]

    def has_lid(self, entry: int, lid: int) -> bool:
        """Return whether a LID, within the LMC, belongs to a switch or to an adapter's port.

        False while the port has no LID.
        """
        info = self.end(entry).info
        return bool(info.lid) and info.lid >> info.lmc == lid >> info.lmc


class NoCableError(Exception):
    """No such node in the subnet, or no cable at its port; the text says which."""


class Cables:
    """The nodes, and the state of their links."""

    def __init__(self, nodes: list[SimNode]) -> None:
        self.nodes = nodes
        self.generation = 0
        """Number that grows with every change that may affect a route."""
        self.on_link: Callable[[SimNode, int], None] = lambda node, port: None
        """Callback for each simulated port whose link went up or down."""
        self.wants_link: Callable[[int], bool] = lambda guid: False
        """Callback that returns whether a function's port is enabled."""
        self.plug: Callable[[int, bool], None] = lambda guid, has_link: None
        """Callback that sets a function's link up or down."""

    def place(self, name: str, port: int) -> PortPosition:
        """Return the position of a port with a cable, by the node's name.

        Raises NoCableError for an unknown node or a port without a cable. A cut cable counts.
        """
        node = next((one for one in self.nodes if one.line.name == name), None)
        if node is None:
            raise NoCableError(f"no node {name!r}")
        if not 1 <= port <= node.num_ports or node.peers[port] is None:
            raise NoCableError(f"no cable at port {port} of {name!r}")
        return node.number, port

    def peer(self, node: int, port: int) -> PortPosition | None:
        """Return the other end of a port's link; None if no cable, cut, or either end is DOWN."""
        far = self._cabled(node, port)
        if far is None:
            return None
        is_down = PortState.DOWN in (self._state(node, port), self._state(*far))
        return None if is_down else far

    def _state(self, node: int, port: int) -> int:
        return self.nodes[node].ports[port].info.port_state

    def is_active(self, node: int, port: int) -> bool:
        """Return whether a port forwards packets other than management packets."""
        return self._state(node, port) == _ACTIVE

    def _cabled(self, number: int, port: int) -> PortPosition | None:
        """Return the other end of a port's cable; None if cut, absent, or no such port."""
        node = self.nodes[number]
        if not 1 <= port <= node.num_ports or port in node.cut:
            return None
        return node.peers[port]

    def can_train(self, number: int, port: int) -> bool:
        """Return whether a port's link can train: an uncut cable, and both ends enabled."""
        far = self._cabled(number, port)
        if far is None:
            return False
        return self._is_enabled(number, port) and self._is_enabled(*far)

    def _is_enabled(self, number: int, port: int) -> bool:
        """Return whether a port is enabled; for a guest's function, ask the function."""
        node = self.nodes[number]
        if node.function is not None:
            return self.wants_link(node.function)
        return not node.ports[port].is_disabled

    def retrain(self, number: int, port: int) -> None:
        """Bring both ends of a link up or down after a cable or a port's setting changed.

        Kept routes become invalid. Ends that are in the right state are not touched.
        """
        self.generation += 1
        has_link = self.can_train(number, port)
        far = self.nodes[number].peers[port]
        for one in ((number, port), far) if far is not None else ((number, port),):
            self._follow(self.nodes[one[0]], one[1], has_link)

    def _follow(self, node: SimNode, port: int, has_link: bool) -> None:
        """Set one end of a link up or down; do nothing if the end is so already.

        A guest's function is set by ``plug``; a simulated port calls ``on_link``.
        """
        managed = node.ports[port]
        if (managed.info.port_state == PortState.DOWN) is not has_link:
            return
        if node.function is not None:
            self.plug(node.function, has_link)
            return
        managed.connect(has_link=has_link)
        self.on_link(node, port)

    def settle(self, number: int, port: int) -> None:
        """Update the link after a port may have been set down or enabled at its own end.

        A port that is DOWN takes its peer down, and trains again if both ends are enabled. One that
        has just been enabled brings its peer up likewise, or goes down again.
        """
        self.generation += 1
        far = self.nodes[number].peers[port]
        if self._state(number, port) == PortState.DOWN:
            self.lose(number, port)
            if self.can_train(number, port):
                self.retrain(number, port)
        elif far is not None and self._state(*far) == PortState.DOWN:
            self.retrain(number, port)

    def lose(self, number: int, port: int) -> None:
        """Set the other end of a link down after this end went down; kept routes become invalid."""
        far = self.nodes[number].peers[port]
        self.generation += 1
        if far is not None and self._state(*far) != PortState.DOWN:
            self._follow(self.nodes[far[0]], far[1], has_link=False)

    def cut(self, number: int, port: int, *, is_cut: bool) -> bool:
        """Cut or repair a port's cable, with both ends' links; return False if already so."""
        if (port in self.nodes[number].cut) is is_cut:
            return False
        far = self.nodes[number].peers[port]
        for one in ((number, port), far) if far is not None else ((number, port),):
            cut = self.nodes[one[0]].cut
            (cut.add if is_cut else cut.discard)(one[1])
        self.retrain(number, port)
        return True


@cache
def _template(width: int, speed: int) -> bytes:
    """Return the bytes of an unconfigured port's PortInfo: DOWN, polling, without a LID."""
    port = EndPort(
        lid=0, port_guid=0, node_guid=0, pkeys=(DEFAULT_PKEY,), node_description=b"", width=width,
        speed=speed, state=PortState.DOWN, phys_state=PhysState.POLLING, sm_lid=0,
    )  # fmt: skip
    return port.port_info()


def managed_port(number: int, rate: tuple[int, int]) -> ManagedPort:
    """Return a simulated port without a link; ``rate`` is its width and speed in PTYS codes."""
    info = port_info.view(bytearray(_template(*rate)))
    info.local_port_num = number
    return ManagedPort(info, (DEFAULT_PKEY,), PKEY_TABLE_ENTRIES)


def built(topology: SubnetTopology, functions: dict[int, int]) -> Cables:
    """Return the nodes and cables of a file; ``functions`` maps each function's GUID to its node.

    A function's node has one port, with the node's first cable; other cables are ignored. Links
    between simulated nodes are up.
    """
    by_node = {node: function for function, node in functions.items()}
    rates: dict[PortPosition, tuple[int, int]] = {}
    joined: list[tuple[PortPosition, PortPosition]] = []
    plugged: set[int] = set()
    for cable in topology.cables:
        ends = []
        for node, port in cable.ends:
            ends.append((node, 1 if node in by_node else port))
        if any(node in plugged for node, _ in ends):
            continue
        plugged |= {node for node, _ in ends if node in by_node}
        joined.append((ends[0], ends[1]))
        rates |= dict.fromkeys(ends, (cable.width, cable.speed))
    nodes = [*_nodes(topology, by_node, rates)]
    for one, other in joined:
        nodes[one[0]].plug(one[1], other)
        nodes[other[0]].plug(other[1], one)
    cables = Cables(nodes)
    for one, other in joined:
        if nodes[one[0]].function is None and nodes[other[0]].function is None:
            cables.retrain(*one)
    return cables


def _nodes(
    topology: SubnetTopology, by_node: dict[int, int], rates: dict[PortPosition, tuple[int, int]]
) -> Iterator[SimNode]:
    """Yield the nodes in the file's order, without cables."""
    for number, line in enumerate(topology.nodes):
        count = 1 if number in by_node else line.num_ports
        ports = [
            managed_port(port, rates.get((number, port), DEFAULT_RATE)) for port in range(count + 1)
        ]
        node = SimNode(number, line, count, ports, [None] * (count + 1))
        if line.kind is NodeType.SWITCH:
            node.tables = SwitchTables(_switch_info())
            ports[0].info.assign(
                {"port_state": PortState.ACTIVE, "port_physical_state": PhysState.LINK_UP}
            )
        else:
            ports[0] = ports[1]
        node.function = by_node.get(number)
        yield node


def _switch_info() -> switch_info:
    return switch_info.new(
        linear_fdb_cap=MULTICAST_LID, multicast_fdb_cap=MULTICAST_LIDS, life_time_value=_LIFE_TIME,
        default_port=NO_PORT, default_mcast_primary=NO_PORT, default_mcast_not_primary=NO_PORT,
    )  # fmt: skip

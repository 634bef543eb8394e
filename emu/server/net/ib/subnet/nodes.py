"""The nodes of a simulated subnet and the cables between them: values, and what follows from them.

A switch's port 0 is its management port (IBTA 18.2.4). A node at which a function of a guest is
plugged in has the function's own port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from emu.device.port.base import NODE_DESCRIPTION_BYTES
from emu.device.port.ib.endport import EndPort
from emu.device.port.ib.managed import ManagedPort
from emu.device.port.ib.port import DEFAULT_PKEY, PKEY_TABLE_ENTRIES
from emu.server.net.ib.subnet.topology import DEFAULT_RATE, NodeLine, Topology
from layouts.enums import PhysState, PortState
from layouts.wire.bth import MULTICAST_LID
from layouts.wire.mads import NodeType, port_info, switch_info

if TYPE_CHECKING:
    from layouts.wire.mads import SwitchInfo

Place = tuple[int, int]
"""A node's number and one of its ports'."""
NO_PORT: Final = 0xFF
"""In forwarding tables: drop (IBTA 14.2.5.10)."""
MULTICAST_LIDS: Final = 1024
"""MulticastFDBCap of each switch."""
_LIFE_TIME: Final = 18
_ACTIVE: Final = PortState.ACTIVE


@dataclass(slots=True)
class SwitchTables:
    """What a manager sets of a switch besides its ports."""

    info: SwitchInfo
    linear: bytearray = field(default_factory=bytearray)
    """The exit of each LID, as far as blocks have been set."""
    multicast: dict[int, int] = field(default_factory=dict)
    """The exits of each multicast LID, as a mask of ports."""

    def exit_to(self, lid: int) -> int:
        """The port by which packets for a LID leave."""
        is_known = lid < len(self.linear) and lid <= self.info.linear_fdb_top
        return self.linear[lid] if is_known else NO_PORT


@dataclass(slots=True)
class SimNode:
    """A switch or a channel adapter."""

    number: int
    line: NodeLine
    num_ports: int
    ports: list[ManagedPort]
    """By number; a channel adapter has none at 0, where its port 1 stands once more."""
    peers: list[Place | None]
    """Where the cable of each port leads."""
    tables: SwitchTables | None = None
    cut: set[int] = field(default_factory=set)
    """Ports whose cable is cut."""
    function: int | None = None
    """The GUID of the function of a guest that it is."""

    @property
    def is_switch(self) -> bool:
        """Whether it forwards packets."""
        return self.tables is not None

    @property
    def description(self) -> bytes:
        """NodeDescription."""
        text = self.line.description.encode()[: NODE_DESCRIPTION_BYTES - 1]
        return text.ljust(NODE_DESCRIPTION_BYTES, b"\0")

    def port_guid(self, number: int) -> int:
        """A switch has its node's for all ports."""
        return self.line.guid + (0 if self.is_switch else number)

    def end(self, entry: int) -> ManagedPort:
        """The port that has a LID, for what comes in by a port."""
        return self.ports[0 if self.is_switch else entry]

    def has_lid(self, entry: int, lid: int) -> bool:
        """Whether a LID is that of the node, or of the port of an adapter."""
        info = self.end(entry).info
        return bool(info.lid) and info.lid >> info.lmc == lid >> info.lmc


class NoPlaceError(Exception):
    """A subnet has no such node, or the node no cable at such a port; the text says which."""


class Cables:
    """Nodes, and which of their links are there."""

    def __init__(self, nodes: list[SimNode]) -> None:
        self.nodes = nodes
        self.generation = 0
        """Grows with all that a packet's way depends on."""
        self.on_link: Callable[[SimNode, int], None] = lambda node, port: None
        """Told of each port of a simulated node whose link has come or gone."""
        self.wants_link: Callable[[int], bool] = lambda guid: False
        """Whether a function has its port enabled."""
        self.plug: Callable[[int, bool], None] = lambda guid, has_link: None
        """Gives a function its link, or takes it."""

    def place(self, name: str, port: int) -> Place:
        """A port with a cable, of the node with this name. Raises NoPlaceError."""
        node = next((one for one in self.nodes if one.line.name == name), None)
        if node is None:
            raise NoPlaceError(f"no node {name!r}")
        if not 1 <= port <= node.num_ports or node.peers[port] is None:
            raise NoPlaceError(f"no cable at port {port} of {name!r}")
        return node.number, port

    def peer(self, node: int, port: int) -> Place | None:
        """The other end of a port's link; None while there is none."""
        far = self._cabled(node, port)
        if far is None:
            return None
        is_down = PortState.DOWN in (self._state(node, port), self._state(*far))
        return None if is_down else far

    def _state(self, node: int, port: int) -> int:
        return self.nodes[node].ports[port].info.port_state

    def is_active(self, node: int, port: int) -> bool:
        """Whether packets that are not management's pass a port."""
        return self._state(node, port) == _ACTIVE

    def _cabled(self, number: int, port: int) -> Place | None:
        """The other end of a cable that is not cut."""
        node = self.nodes[number]
        if not 1 <= port <= node.num_ports or port in node.cut:
            return None
        return node.peers[port]

    def can_train(self, number: int, port: int) -> bool:
        """Whether a port's link comes up: there is a cable, and neither end is disabled."""
        far = self._cabled(number, port)
        if far is None:
            return False
        return self._is_enabled(number, port) and self._is_enabled(*far)

    def _is_enabled(self, number: int, port: int) -> bool:
        node = self.nodes[number]
        if node.function is not None:
            return self.wants_link(node.function)
        return not node.ports[port].is_disabled

    def retrain(self, number: int, port: int) -> None:
        """A port's cable or a manager's wish for it has changed: both ends follow."""
        self.generation += 1
        has_link = self.can_train(number, port)
        far = self.nodes[number].peers[port]
        for one in ((number, port), far) if far is not None else ((number, port),):
            self._follow(self.nodes[one[0]], one[1], has_link)

    def _follow(self, node: SimNode, port: int, has_link: bool) -> None:
        managed = node.ports[port]
        if (managed.info.port_state == PortState.DOWN) is not has_link:
            return
        if node.function is not None:
            self.plug(node.function, has_link)
            return
        managed.connect(has_link=has_link)
        self.on_link(node, port)

    def settle(self, number: int, port: int) -> None:
        """A port may have been set down, or enabled, at its own end: the link follows."""
        self.generation += 1
        is_down = self._state(number, port) == PortState.DOWN
        if is_down:
            self.lose(number, port)
        if is_down and self.can_train(number, port):
            self.retrain(number, port)

    def lose(self, number: int, port: int) -> None:
        """A link goes down at one end: the other one sees that, before they train again."""
        far = self.nodes[number].peers[port]
        self.generation += 1
        if far is not None and self._state(*far) != PortState.DOWN:
            self._follow(self.nodes[far[0]], far[1], has_link=False)

    def cut(self, number: int, port: int, *, is_cut: bool) -> bool:
        """Cut a port's cable, or mend it; False when it is so already."""
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
    """PortInfo of a port that nobody has set up."""
    port = EndPort(
        lid=0, port_guid=0, node_guid=0, pkeys=(DEFAULT_PKEY,), node_description=b"", width=width,
        speed=speed, state=PortState.DOWN, phys_state=PhysState.POLLING, sm_lid=0,
    )  # fmt: skip
    return port.port_info()


def managed_port(number: int, rate: tuple[int, int]) -> ManagedPort:
    """A simulated port without a link; ``rate`` is width and speed by PTYS."""
    info = port_info.view(bytearray(_template(*rate)))
    info.local_port_num = number
    return ManagedPort(info, (DEFAULT_PKEY,), PKEY_TABLE_ENTRIES)


def built(topology: Topology, functions: dict[int, int]) -> Cables:
    """The subnet of a file; ``functions`` has the node that each function is, by its GUID.

    Such a node has one port, where the first of its cables ends; it has none of the others.
    """
    by_node = {node: function for function, node in functions.items()}
    rates: dict[Place, tuple[int, int]] = {}
    joined: list[tuple[Place, Place]] = []
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
        nodes[one[0]].peers[one[1]] = other
        nodes[other[0]].peers[other[1]] = one
    cables = Cables(nodes)
    for one, other in joined:
        if nodes[one[0]].function is None and nodes[other[0]].function is None:
            cables.retrain(*one)
    return cables


def _nodes(
    topology: Topology, by_node: dict[int, int], rates: dict[Place, tuple[int, int]]
) -> Iterator[SimNode]:
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


def _switch_info() -> SwitchInfo:
    return switch_info.new(
        linear_fdb_cap=MULTICAST_LID, multicast_fdb_cap=MULTICAST_LIDS, life_time_value=_LIFE_TIME,
        default_port=NO_PORT, default_mcast_primary=NO_PORT, default_mcast_not_primary=NO_PORT,
    )  # fmt: skip

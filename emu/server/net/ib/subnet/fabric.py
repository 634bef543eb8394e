"""The wire of functions in a simulated subnet whose manager runs in a guest.

All packets between the functions are forwarded by the switches' tables. Connected services also
send packets instead of messages, so that switches count them. Simulated nodes respond to management
datagrams.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.ud.delivery import QP0, QP1
from emu.device.port import partitions
from emu.device.port.datagram import GSI_QKEY, Datagram, Destination, Origin
from emu.device.port.ib import sma
from emu.device.port.ib.datagram import answer_to
from emu.device.port.ib.link_errors import LinkError, outcome
from emu.device.port.ib.port import DEFAULT_PKEY, LINK_LOCAL_PREFIX
from emu.device.ports import Clock
from emu.server.net.ib.local import PacketWatcher
from emu.server.net.ib.subnet.nodes import PortPosition, SimNode, built
from emu.server.net.ib.subnet.places import places_of
from emu.server.net.ib.subnet.pma import CounterAgents
from emu.server.net.ib.subnet.routes import LINK_DOWNED, NOWHERE, Path, Routes
from emu.server.net.ib.subnet.subnet_port import SubnetPort
from emu.server.net.ib.subnet.topology import SubnetTopology
from emu.server.net.ib.subnet.traps import Traps
from emu.server.net.ib.subnet.walk import Walk
from emu.server.net.link.direction import LinkDirection
from layouts.enums.vport import PortState
from layouts.wire.bth import PERMISSIVE_LID
from layouts.wire.mads import MAD_BYTES, LocalChange

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from layouts.wire.mads import smp

log = logging.getLogger(__name__)
_PORT: Final = 1
"""Port number of every function."""


class SubnetFabric:
    """A subnet and its functions; implements :class:`emu.server.net.ib.local.Wired`."""

    def __init__(self, clock: Clock, topology: SubnetTopology, guids: Iterable[int]) -> None:
        """Build the subnet for functions with ``guids``.

        Raises TopologyError when the file has too few channel adapters.
        """
        self.clock = clock
        places = places_of(topology, list(guids))
        self.cables = built(topology, places)
        self.routes = Routes(self.cables, clock.budget)
        self.tx_links: MutableMapping[int, LinkDirection] = {}
        self.rx_links: MutableMapping[int, LinkDirection] = {}
        self.watcher: PacketWatcher | None = None
        self._agents = CounterAgents(self.routes, clock.budget)
        self._traps = Traps(clock, self._smp_leaves)
        self._walk = Walk(clock, self.cables, self._smp_arrives, self._traps)
        self.plugs = {guid: SubnetPort(self, guid, number) for guid, number in places.items()}
        self._by_node = {plug.number: plug for plug in self.plugs.values()}
        self.cables.on_link = self._link_changed
        self.cables.wants_link = lambda guid: self.plugs[guid].wants_link
        self.cables.plug = lambda guid, has_link: self.plugs[guid].set_link(up=has_link)

    def key_of(self, hca: Hca) -> int:
        """Return the key of a function's links and packets: its GUID."""
        return hca.ib.guid

    # -- subnet management

    def _link_changed(self, node: SimNode, port: int) -> None:
        """Report a simulated port's link that went up or down; count link_downed if down."""
        if node.ports[port].info.port_state == PortState.DOWN:
            self.routes.count(node.number, port, LINK_DOWNED)
        self._traps.link_changed(node)

    def local_change(self, plug: SubnetPort, change: LocalChange) -> None:
        """Report a function's changed node description or capabilities to the manager."""
        self._traps.port_changed(self.cables.nodes[plug.number], change)

    def trap_repressed(self, plug: SubnetPort, tid: int) -> None:
        """End a function's trap that the manager repressed."""
        self._traps.repressed(plug.number, tid)

    def bad_mkey(self, plug: SubnetPort, mad: smp, slid: int) -> None:
        """Report to the manager that a function received an SMP with a wrong M_Key."""
        self._traps.bad_mkey(self.cables.nodes[plug.number], _PORT, mad, slid)

    def fail_link(self, place: PortPosition, error: LinkError, count: int) -> None:
        """Count ``count`` errors of a port, and send a trap if they exceed the port's threshold.

        Errors of a guest's function are counted at the function's own port.
        """
        node, port = self.cables.nodes[place[0]], place[1]
        plug = self._by_node.get(node.number)
        result = outcome(error, count, node.end(port).info)
        for name, number in result.counters.items():
            if plug is None:
                self.routes.count(node.number, port, name, number)
            else:
                plug.count_error(name, number)
        if result.trap is not None:
            self._traps.link_failed(node, port, result.trap)

    def _smp_leaves(self, place: PortPosition, data: bytes, dlid: int, slid: int) -> None:
        """Send an SMP from a node's port; deliver directly if the manager is in the same node."""
        node = self.cables.nodes[place[0]]
        if node.function is not None and node.has_lid(place[1], dlid):
            self._smp_arrives(node.function, data, slid, dlid)  # the manager is in the same node
        else:
            self._walk.leave(place, data, dlid, slid)

    def _smp_arrives(self, guid: int, data: bytes, slid: int, dlid: int) -> None:
        """Deliver an SMP to QP0 of the function with this GUID."""
        to = Destination(QP0, 0, dlid, sl=0, path_bits=0)
        origin = Origin(slid, QP0, DEFAULT_PKEY, 0, bytes(16))
        self.plugs[guid].arrive(Datagram(to, [memoryview(data)], MAD_BYTES, None, False), origin)

    def send_smp(self, plug: SubnetPort, packet: Datagram, origin: Origin) -> None:
        """Send an SMP from a function's QP0 to another node; drop other datagrams to QP0.

        A permissive destination LID gives the SMP a permissive source LID.
        """
        data = b"".join(packet.data)
        if origin.qpn != QP0 or not sma.is_smp(data):
            log.debug("LID %#x: no SMP to QP0: dropped", origin.lid)
            return
        dlid = packet.to.lid
        slid = PERMISSIVE_LID if dlid == PERMISSIVE_LID else origin.lid
        self._walk.leave((plug.number, _PORT), data, dlid, slid)

    # -- packets

    def receiver_of(self, plug: SubnetPort, lid: int, octets: int) -> SubnetPort | None:
        """Return the function that receives a packet for a LID, and count it along the route.

        None if no function is there. A dropped packet is counted too, where it is dropped.
        """
        path = self.routes.route((plug.number, _PORT), lid)
        self.routes.passes(path, octets)
        return self._by_node.get(path.end)

    def finds(self, plug: SubnetPort, lid: int) -> SubnetPort | None:
        """Return the function that packets for a LID reach; None without one.

        No packet is counted.
        """
        return self._by_node.get(self.routes.route((plug.number, _PORT), lid).end)

    def carry(self, plug: SubnetPort, packet: Datagram, origin: Origin) -> None:
        """Send a datagram to ports of other nodes, and count it along the route.

        A simulated node answers a datagram to QP1 and ignores others. A datagram without a route is
        dropped.
        """
        if packet.is_multicast:
            self._spread(plug, packet, origin)
            return
        path = self.routes.route((plug.number, _PORT), packet.to.lid)
        self.routes.passes(path, packet.octets)
        if (to := self._by_node.get(path.end)) is not None:
            to.arrive(packet, origin)
        elif path.end != NOWHERE and packet.to.qpn == QP1:
            self._ask(self.cables.nodes[path.end], path, packet, origin)

    def _spread(self, plug: SubnetPort, packet: Datagram, origin: Origin) -> None:
        """Send a multicast datagram along the switches' tree to all functions but the sender."""
        tree = self.routes.tree(plug.number, packet.to.lid)
        self.routes.passes(tree, packet.octets)
        for node in tree.ends:
            if (to := self._by_node.get(node)) is not None and to is not plug:
                to.arrive(packet, origin)

    def _ask(self, node: SimNode, path: Path, packet: Datagram, origin: Origin) -> None:
        """Let a simulated node's agent respond to a datagram at QP1 (IBTA 10.2.5, 10.9.8).

        A wrong Q_Key or P_Key, another size than 256 bytes, or another class gets no response. The
        response takes the route back to the sender.
        """
        entry = path.received[-1][1]
        keys = node.end(entry).pkeys
        if origin.qkey != GSI_QKEY or not any(partitions.match(key, origin.pkey) for key in keys):
            return
        data = b"".join(packet.data)
        answer = self._agents.answer(node, data) if len(data) == MAD_BYTES else None
        if answer is None:
            return
        lid = packet.to.lid
        gid = LINK_LOCAL_PREFIX.to_bytes(8, "big") + node.port_guid(entry).to_bytes(8, "big")
        source = Origin(lid, QP1, origin.pkey, GSI_QKEY, gid)
        back = Datagram(answer_to(packet.to, origin), [memoryview(answer)], MAD_BYTES, None, False)
        home = self.routes.route((node.number, 0 if node.is_switch else entry), origin.lid)
        self.routes.passes(home, back.octets)
        if (to := self._by_node.get(home.end)) is not None:
            to.arrive(back, source)

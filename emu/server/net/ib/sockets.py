"""A fabric of several processes, whose functions reach each other over sockets.

The first process at the fabric's address is the hub and listens; the others connect to it. When the
hub ends, a remaining process becomes the hub, and all functions keep their LIDs and GUIDs. The
hub's subnet administrator serves the whole fabric, at a LID of its own. Two functions of a process
communicate without sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from emu.device.engine import lifecycle
from emu.device.engine.rc.packets.connection import receive, receive_train
from emu.device.port.datagram import Datagram, Origin
from emu.device.port.ib.datagram_packets import datagram_of, frame_of
from emu.device.port.ib.endport import EndPort, end_port
from emu.device.port.ib.framing import frames_of, parse, parse_train
from emu.device.port.ib.port import SM_LID
from emu.device.port.packet import BadPacketError, Packet
from emu.device.port.train import Train
from emu.device.ports import CarryTrain, Clock
from emu.device.rounds.sizes import TRAIN_WORK
from emu.host.listening import OWNER_ONLY
from emu.server.net.eth.segments import Segments
from emu.server.net.eth.uplinks import Uplinks
from emu.server.net.fabric import protocol
from emu.server.net.fabric.address import parse as parse_address
from emu.server.net.fabric.connection import FabricConnection
from emu.server.net.fabric.election import Election
from emu.server.net.fabric.errors import FabricProtocolError
from emu.server.net.fabric.hub import Hub
from emu.server.net.fabric.hub_host import FrameCarrier
from emu.server.net.fabric.member import Membership
from emu.server.net.fabric.protocol import FrameKind, Identity
from emu.server.net.ib.local import LocalFabric, destination
from emu.server.net.poller import Poller, Reactor
from layouts.enums.vport import PhysState, PortState
from layouts.wire.bth import Service

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_PACKET = FrameKind.PACKET
_UD = Service.UD


class SocketFabric(LocalFabric):
    """Implements :class:`ports.Wire` for a fabric shared with functions of other processes."""

    def __init__(
        self,
        name: str,
        loop: Reactor,
        requested: Sequence[Identity],
        socket_mode: int = OWNER_ONLY,
        ethernet: FrameCarrier | None = None,
    ) -> None:
        """Prepare the fabric; ``requested`` has our functions' LIDs and GUIDs, 0 for any.

        ``ethernet`` carries Ethernet frames; the default connects only to other processes. Raises
        :class:`FabricError` for an invalid name.
        """
        super().__init__(loop)
        address = parse_address(name, socket_mode)
        self.ethernet = ethernet if ethernet is not None else Uplinks(Segments(loop))
        self.clock: Clock = loop
        self._poller = Poller(loop)
        self.election = Election(self, address, loop, self._poller, requested)
        self._unplugged: set[int] = set()
        """LIDs of our ports that are down because the fabric is lost."""

    @property
    def _role(self) -> Hub | Membership | None:
        return self.election.role

    @property
    def is_hub(self) -> bool:
        """Whether this process is the hub, whose administrator serves the fabric."""
        return isinstance(self._role, Hub)

    def join(self) -> list[Identity]:
        """Run the loop until the fabric is joined; return the LIDs and GUIDs of our functions.

        Raises FabricError if the hub refuses, or none answers within JOIN_TIMEOUT_NS.
        """
        return self.election.join()

    def close(self) -> None:
        """Leave the fabric."""
        self.election.leave()
        self._poller.close()

    def watch(self, connection: FabricConnection, events: int) -> None:
        """Serve a connection when these epoll events occur."""
        self._poller.watch(connection, events)

    # -- our role

    def role_taken(self, *, again: bool) -> None:
        """Bring up the ports that the loss of the fabric took down, and announce all of ours.

        After a rejoin, drivers are asked to reregister with a possibly new SA.
        """
        unplugged, self._unplugged = self._unplugged, set()
        for lid, hca in self._nodes.items():
            if lid in unplugged:
                lifecycle.set_link(hca, up=True)
            self._announce(hca)
            if again:
                lifecycle.reregister(hca.events)

    def role_lost(self) -> None:
        """Bring all links down until the process has joined again, and forget multicast routes.

        Ports that were down already stay down after the rejoin.
        """
        self._listeners.clear()
        for hca in self._nodes.values():
            self._unplug(hca)

    def _unplug(self, hca: Hca) -> None:
        """Bring a function's link down if up, and remember its LID for :meth:`role_taken`."""
        if hca.link.is_up:
            self._unplugged.add(hca.ib.lid)
            lifecycle.set_link(hca, up=False)

    # -- the subnet

    def attach(self, hca: Hca) -> None:
        """Make the function reachable at its port's LID, and announce the port.

        After a reset, the old port is announced as down first, and its groups are forgotten. While
        the fabric is lost, the new port's link goes down.
        """
        if self.node(hca.ib.lid) is not None and self._role is not None:
            gone = replace(end_port(hca.ib), state=PortState.DOWN, phys_state=PhysState.POLLING)
            self._role.announce(gone)
        super().attach(hca)
        self._forget_groups(hca)
        self._announce(hca)
        if self.election.has_joined and self._role is None:
            self._unplug(hca)

    def port_changed(self, hca: Hca) -> None:
        """Sweep the subnet and announce a function's port; a port that is down loses its groups."""
        super().port_changed(hca)
        if not hca.link.is_up:
            self._forget_groups(hca)
        self._announce(hca)

    def _announce(self, hca: Hca) -> None:
        """Report a function's port to the other processes; do nothing without a role."""
        if self._role is not None:
            self._role.announce(end_port(hca.ib))

    def local_ports(self) -> Iterator[EndPort]:
        """Return the ports of our own functions, up or down."""
        return (end_port(hca.ib) for hca in self._nodes.values())

    def ports_changed(self) -> None:
        """Sweep the subnet after ports of other processes changed; only the hub does so."""
        if self.is_hub:
            self.sa.sweep()

    def end_ports(self) -> Iterator[EndPort]:
        """Yield the active ports of all processes, in the administrator's form."""
        yield from super().end_ports()
        if self._role is not None:
            yield from (port for port in self._role.ports() if port.state is PortState.ACTIVE)

    def _lead_to(self, mlid: int, gid: bytes, listens: bool) -> None:
        """Record a multicast route of our administrator, and report it to the port's process.

        Only the hub reports, and only for ports of other processes.
        """
        super()._lead_to(mlid, gid, listens)
        lid = self.sa.lid_of(gid)
        connection = self._connection_to(lid) if lid is not None and self.is_hub else None
        if connection is not None:
            connection.send(FrameKind.GROUP, protocol.group(mlid, gid, listens))

    def group_changed(self, mlid: int, gid: bytes, listens: bool) -> None:
        """Record whether the hub's multicast LID leads to a port of ours; ignore foreign GIDs."""
        if any(gid == hca.ib.gid(0) for hca in self._nodes.values()):
            super()._lead_to(mlid, gid, listens)

    def _forget_groups(self, hca: Hca) -> None:
        """Forget the groups of a port that left or restarted, as the hub's administrator does."""
        gid = hca.ib.gid(0)
        self._listeners = {one for one in self._listeners if one[1] != gid}

    # -- packets out

    def needs_packets(self, lid: int, node: Hca | None) -> bool:
        """Return whether messages to this LID must be sent as packets; True for other processes."""
        return self._connection_to(lid) is not None or super().needs_packets(lid, node)

    def _forward(self, frame: bytes) -> bool:
        """Send a packet to its process, or queue it for one of ours.

        Return False when the next packet should wait.
        """
        connection = self._connection_to(destination(frame))
        if connection is None:
            return super()._forward(frame)
        return connection.send(_PACKET, frame)

    def train_to(self, source: Hca, address: int, mtu: int) -> CarryTrain | None:
        """Return the sender of trains to the LID's process; None when packets must be single.

        Causes are a watcher, a link of the source's port, and a LID that is ours or unknown.
        """
        if self.watcher is not None or source.link.lid in self.tx_links:
            return None
        connection = self._connection_to(address)
        return None if connection is None else partial(connection.send_train, FrameKind.TRAIN)

    def _when_space_behind(self, lid: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when our queue or the connection to the LID has space."""
        connection = self._connection_to(lid)
        if connection is None:
            super()._when_space_behind(lid, callback)
        else:
            connection.when_ready(callback)

    def _connection_to(self, lid: int) -> FabricConnection | None:
        """Return the connection to the process with this LID; None for ours or without a role."""
        role = self.election.role
        return role.connection_to(lid) if role is not None else None

    def host_of(self, lid: int) -> Hashable:
        """Return what identifies the host of a LID: of another process, its connection."""
        connection = self._connection_to(lid)
        return super().host_of(lid) if connection is None else connection.name

    def _carry(self, packet: Datagram, origin: Origin) -> None:
        """Send a datagram of one of our functions, or of our administrator.

        Multicast goes to all processes, and one for the SA to the hub; local receivers are served,
        too.
        """
        connections: list[FabricConnection] = []
        if packet.is_multicast or (packet.to.lid == SM_LID and not self.is_hub):
            connections += self._role.everyone() if self._role is not None else ()
        elif (connection := self._connection_to(packet.to.lid)) is not None:
            connections.append(connection)
        if connections:
            frame = frame_of(packet, origin)
            for connection in connections:
                connection.send(FrameKind.PACKET, frame)
        self._carry_here(packet, origin)

    # -- packets in

    def parse(self, frame: memoryview) -> Packet:
        """Return the packet of a frame. Raises FabricProtocolError for a malformed one."""
        try:
            return parse(frame)
        except BadPacketError as error:
            raise FabricProtocolError(f"bad packet: {error}") from None

    def deliver(self, packet: Packet, frame: memoryview) -> int:
        """Deliver a packet from a socket to our functions; return the number of receivers.

        A packet for a LID that is not ours is dropped and returns 1. The port's link and watcher
        take part.
        """
        if packet.op.service is _UD:
            datagram, origin = datagram_of(packet)
            self._carry_here(datagram, origin)
            return self._receivers(datagram)
        if (node := self.node(packet.dlid)) is None:
            return 1
        if packet.dlid in self.rx_links:
            self._deliver_here(bytes(frame))
            return 1
        if self.watcher is not None:
            self.watcher.packet(node.link.lid, frame, is_sent=False)
        receive(node, packet, len(frame))
        return 1

    def parse_train(self, frame: memoryview) -> Train:
        """Return the train of a frame. Raises FabricProtocolError for a malformed one."""
        try:
            return parse_train(frame)
        except BadPacketError as error:
            raise FabricProtocolError(f"bad train: {error}") from None

    def deliver_train(self, train: Train) -> int:
        """Deliver a train to a function of ours; return its cost.

        A link or a watcher of the port receives single packets, which cost one each. A train for a
        LID that is not ours is dropped.
        """
        lid = train.first.dlid
        if (node := self.node(lid)) is None:
            return TRAIN_WORK
        if lid not in self.rx_links and self.watcher is None:
            receive_train(node, train, train.length)
            return TRAIN_WORK
        for one in frames_of(train):
            view = memoryview(one)
            self.deliver(self.parse(view), view)
        return train.count

    def _receivers(self, datagram: Datagram) -> int:
        """Return 1 for a unicast datagram, else 1 plus the number of our attached queue pairs."""
        if not datagram.is_multicast:
            return 1
        gid = datagram.to.gid or b""
        return 1 + sum(len(hca.mcgs.get(gid, ())) for hca in self._nodes.values())

    def _carry_here(self, packet: Datagram, origin: Origin) -> None:
        """Deliver a datagram to our functions, and to our administrator if we are the hub.

        In other processes, a datagram for the SA's LID is ignored here.
        """
        if packet.to.lid != SM_LID or self.is_hub:
            super()._carry(packet, origin)

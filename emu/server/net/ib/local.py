"""The fabric inside a process: functions by LID, datagrams between them, the administrator.

Connected queue pairs of functions in the same process find each other through ``node`` and exchange
whole messages. The fabric forwards datagrams, and packets when fault injection needs them. The
subnet administrator has a LID of its own.

A multicast packet reaches the ports that have joined the group of its LID, and there the queue
pairs attached to its GID. The subnet administrator reports the joins to the switch. A sending
adapter itself delivers to its own attached queue pairs, joined or not (IBTA 10.5.2); the switch
does not send the packet back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, MutableMapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from emu.device.engine.rc.packets.connection import receive
from emu.device.engine.ud.delivery import QP0, QP1, arrive
from emu.device.port.datagram import Datagram, Origin
from emu.device.port.ib.endport import EndPort, end_port
from emu.device.port.ib.framing import parse
from emu.device.port.ib.port import SM_LID, IbPort
from emu.device.port.packet import BadPacketError
from emu.device.ports import Buffer, CarryTrain, Clock
from emu.device.state.containment import ContainedClock, contain
from emu.server.net.ib.link_packets import DatagramLinkPacket, IbLinkPacket
from emu.server.net.ib.packet_queue import PacketQueue
from emu.server.net.ib.sa import SubnetAdministrator
from emu.server.net.link.direction import LinkDirection
from layouts.wire.bth import PERMISSIVE_LID

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)


class PacketWatcher(Protocol):
    """Observes the packets at the ports of this process's functions."""

    @property
    def wants_messages(self) -> bool:
        """Whether messages between these functions must be sent as packets."""

    def packet(self, lid: int, frame: Buffer, *, is_sent: bool) -> None:
        """Observe a packet of the port with this LID, from local route header to invariant CRC."""

    def datagram(self, lid: int, packet: Datagram, origin: Origin, *, is_sent: bool) -> None:
        """Observe a datagram of the port with this LID."""


class Wired(Protocol):
    """The wire of a process's InfiniBand functions, for links and watchers."""

    tx_links: MutableMapping[int, LinkDirection]
    """Links for sent packets, by ``key_of`` the function."""
    rx_links: MutableMapping[int, LinkDirection]
    """Links for received packets, by ``key_of`` the function."""
    watcher: PacketWatcher | None

    def key_of(self, hca: Hca, /) -> int:
        """Return the key of a function's links and packets."""


class LocalFabric:
    """Implements :class:`emu.device.ports.Wire` for the functions of this process."""

    def __init__(self, clock: Clock) -> None:
        self._nodes: dict[int, Hca] = {}
        self.node: Callable[[int], Hca | None] = self._nodes.get
        """``node(lid)`` returns the function with this LID in this process; None without one.

        The dictionary's own method is used for speed, for each poll of a queue pair.
        """
        self._packets = PacketQueue(clock, self._deliver_here)
        self.tx_links: MutableMapping[int, LinkDirection] = {}
        """Links for sent packets, by the function's LID."""
        self.rx_links: MutableMapping[int, LinkDirection] = {}
        """Links for received packets, by the function's LID."""
        self.watcher: PacketWatcher | None = None
        self._sa_owner = _Administration()
        self.sa = SubnetAdministrator(
            self.end_ports,
            self._carry,
            ContainedClock(clock, self._sa_owner),
            self._lead_to,
            self._port_at,
            self.host_of,
        )
        self._listeners: set[tuple[int, bytes]] = set()
        """Multicast LIDs, each with the GID of a port that it leads to."""

    def attach(self, hca: Hca) -> None:
        """Make the function reachable at its port's LID, and sweep the subnet.

        After a reset, the function replaces the old one, whose records the administrator drops
        first.
        """
        if self._nodes.pop(hca.ib.lid, None) is not None:
            self.sa.sweep()
        self._nodes[hca.ib.lid] = hca
        self.sa.sweep()

    def port_changed(self, hca: Hca) -> None:
        """Sweep the subnet after a port went up or down."""
        self.sa.sweep()

    def key_of(self, hca: Hca) -> int:
        """Return the key of a function's links and packets: its LID."""
        return hca.ib.lid

    def needs_packets(self, lid: int, node: Hca | None) -> bool:
        """Return whether messages to this LID must be sent as packets; False for other processes.

        A function in this process needs packets only for links, a capture of messages, or its own
        fault rules on packets.
        """
        if node is None:
            return False
        if self.tx_links or self.rx_links:
            return True
        if self.watcher is not None and self.watcher.wants_messages:
            return True
        return node.probes.faults is not None and node.probes.faults.wants_packets

    def transmit(self, source: Hca, frame: bytes, _sqn: int = 0) -> bool:
        """Send a packet, through the sender's link if any; return False to pause the sender.

        A packet to the sender's own LID skips the link. The packet is delivered in a later round;
        without a receiver or above MAX_PACKETS, it is dropped silently.
        """
        if self.watcher is not None:
            self.watcher.packet(source.link.lid, frame, is_sent=True)
        if not self.tx_links:  # most processes
            return self._forward(frame)
        link = self.tx_links.get(source.link.lid)
        if link is None or destination(frame) == source.link.lid:
            return self._forward(frame)
        link.take(IbLinkPacket(frame, self._forward))
        return not link.is_pausing

    def _forward(self, frame: bytes) -> bool:
        """Forward a packet that has left its sender's port."""
        return self._packets.add(frame)

    def train_to(self, source: Hca, address: int, mtu: int) -> CarryTrain | None:
        """Return None: packets inside the process are always observed one by one."""
        return None

    def when_ready(self, lid: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when more packets may be sent.

        Any pausing link delays the call, whichever function it belongs to. Then space behind the
        sender's port is awaited.
        """
        for link in self.tx_links.values():
            if link.is_pausing:
                link.when_ready(partial(self.when_ready, lid, callback))
                return
        self._when_space_behind(lid, callback)

    def _when_space_behind(self, lid: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when there is space behind the sender's port."""
        self._packets.when_ready(callback)

    def _deliver_here(self, frame: bytes) -> None:
        """Deliver a packet to a function of this process, through its link if any.

        A packet from the same port skips the link.
        """
        lid = destination(frame)
        link = self.rx_links.get(lid)
        if link is None or source_of(frame) == lid:
            self._receive(frame)
        else:
            link.take(IbLinkPacket(frame, self._receive))

    def _receive(self, frame: bytes) -> None:
        """Deliver a packet to the function with its DLID; drop it silently without one.

        The watcher observes the packet first, also a malformed one, which is then dropped with a
        warning in the log.
        """
        node = self._nodes.get(destination(frame))
        if node is None:
            return
        if self.watcher is not None:
            self.watcher.packet(node.link.lid, frame, is_sent=False)
        take(node, frame)

    def _port_at(self, lid: int) -> IbPort | None:
        """Return the port of this process with a LID; None without one."""
        node = self._nodes.get(lid)
        return node.ib if node is not None else None

    def host_of(self, lid: int) -> Hashable:
        """Return what identifies the host of a LID: of virtual functions, their physical port."""
        port = self._port_at(lid)
        return lid if port is None else (port.behind or port).lid

    def end_ports(self) -> Iterator[EndPort]:
        """Return the active ports, in the administrator's form."""
        return (end_port(hca.ib) for hca in self._nodes.values() if hca.link.is_up)

    def datagram(self, source: Hca, packet: Datagram, origin: Origin) -> None:
        """Send a datagram to its receivers; drop it silently when there are none.

        A permissive LID leads to the switch for QP0, else back to the sender. Other datagrams to
        foreign LIDs pass the sender's link.
        """
        if self.watcher is not None:
            self.watcher.datagram(source.link.lid, packet, origin, is_sent=True)
        link = self.tx_links.get(source.link.lid)
        if packet.to.lid == PERMISSIVE_LID and packet.to.qpn == QP0:
            # The switch, behind the manager's LID, is the other end of the cable.
            packet = replace(packet, to=replace(packet.to, lid=SM_LID))
        if packet.to.lid == PERMISSIVE_LID:
            arrive(source, packet, origin, is_looped=True)
        elif link is None or packet.to.lid == source.link.lid:
            self._carry(packet, origin)
        else:
            link.take(DatagramLinkPacket(packet, partial(self._carry, origin=origin)))

    def _carry(self, packet: Datagram, origin: Origin) -> None:
        """Deliver a datagram behind the sender's link: to ports, the switch (QP0) or the SA (QP1).

        Multicast reaches the sending port and the ports that joined. An exception in the
        administrator is logged and loses the datagram.
        """
        lid = packet.to.lid
        if packet.is_multicast:
            for hca in list(self._nodes.values()):
                if hca.link.lid == origin.lid or (lid, hca.ib.gid(0)) in self._listeners:
                    self._arrive(hca, packet, origin)
        elif lid == SM_LID:
            takers = {QP0: self.sa.switch.receive, QP1: self.sa.receive}
            if (take := takers.get(packet.to.qpn)) is not None:
                contain(self._sa_owner, partial(take, b"".join(packet.data), packet.to, origin))
        elif (node := self._nodes.get(lid)) is not None:
            self._arrive(node, packet, origin)

    def _lead_to(self, mlid: int, gid: bytes, listens: bool) -> None:
        """Record whether a multicast LID leads to the port with this GID."""
        if listens:
            self._listeners.add((mlid, gid))
        else:
            self._listeners.discard((mlid, gid))

    def _arrive(self, hca: Hca, packet: Datagram, origin: Origin) -> None:
        """Deliver a datagram to a function's port, through its link unless from the same port."""
        lid = hca.link.lid
        link = self.rx_links.get(lid)
        if link is None or origin.lid == lid:
            self._deliver_to_function(packet, lid, origin)
        else:
            link.take(
                DatagramLinkPacket(
                    packet, partial(self._deliver_to_function, lid=lid, origin=origin)
                )
            )

    def _deliver_to_function(self, packet: Datagram, lid: int, origin: Origin) -> None:
        """Deliver a datagram to the port with this LID; drop it silently without such a port.

        The watcher observes the datagram first, if the port's link is up.
        """
        hca = self._nodes.get(lid)
        if hca is None:
            return
        if self.watcher is not None and hca.link.is_up:
            self.watcher.datagram(hca.link.lid, packet, origin, is_sent=False)
        arrive(hca, packet, origin, is_looped=origin.lid == lid)


def take(node: Hca, frame: bytes) -> None:
    """Deliver a packet to a function; drop a malformed one with a warning in the log.

    A packet with equal source and destination LID is counted as looped.
    """
    try:
        packet = parse(memoryview(frame))
    except BadPacketError as error:
        log.warning("malformed packet dropped: %s", error)
        return
    if source_of(frame) == destination(frame):
        node.link.count_looped(1, len(frame))
    receive(node, packet, len(frame))


def destination(frame: bytes) -> int:
    """Return the destination LID of a packet's local route header."""
    return int.from_bytes(frame[2:4], "big")


def source_of(frame: bytes) -> int:
    """Return the source LID of a packet's local route header."""
    return int.from_bytes(frame[6:8], "big")


class _Administration:
    """The owner of the administrator's work; the administrator continues after an error."""

    has_failed = False

    def fail(self) -> None:
        """Log the error; the datagram in handling is lost."""
        log.exception("subnet administrator: internal error: a datagram is lost")

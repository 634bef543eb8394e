"""The listening process of a fabric: assigns LIDs and GUIDs, tracks all ports, forwards packets.

The hub's own functions have ports like those of every member. A member that breaks the protocol, or
sends a packet with a foreign source LID, is disconnected.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from emu.device.port.ib.endport import EndPort
from emu.device.port.packet import Packet
from emu.device.rounds.sizes import ACCEPTS_PER_ROUND, TRAIN_WORK
from emu.server.net.fabric import port_frames, protocol
from emu.server.net.fabric.address import FabricListener
from emu.server.net.fabric.connection import FabricConnection
from emu.server.net.fabric.directory import TakenError, assign
from emu.server.net.fabric.errors import FabricProtocolError
from emu.server.net.fabric.hub_host import HubHost
from emu.server.net.fabric.hub_member import HubMember
from emu.server.net.fabric.port_frames import MAX_PORTS
from emu.server.net.fabric.port_reports import PortReports
from emu.server.net.fabric.protocol import FrameKind, Identity
from emu.server.net.poller import READ

log = logging.getLogger(__name__)

MAX_MEMBERS = 64
MAX_UNGREETED = 64
"""Limit of connections without HELLO; a further connection closes the oldest of them."""
GREETING_NS = 5_000_000_000
"""Time within which a new connection must send HELLO."""
_LOG_COMPARED_PER_COST = 6
"""Number of P_Keys, and of functions and ports that a changed port is compared with, at the cost of
one packet."""
_PACKET = FrameKind.PACKET
_FRAME = FrameKind.FRAME


class Hub:
    """The listening end of a fabric."""

    def __init__(
        self,
        site: HubHost,
        listener: FabricListener,
        requested: Sequence[Identity],
        former: Iterable[Identity] = (),
    ) -> None:
        """Assign numbers to our own functions; ``former`` functions keep the right to theirs.

        Raises :class:`TakenError` when requested LIDs or GUIDs of our own functions clash.
        """
        self._site = site
        self._listener = listener
        self._former = list(former)
        self._members: dict[FabricConnection, HubMember] = {}
        self._by_lid: dict[int, FabricConnection] = {}
        self._count = 0
        self.identities = assign(requested, (), self._former)
        self.reports = PortReports(site, self._members, self.identities)

    def fileno(self) -> int:
        """Return the listener's descriptor, readable when a process connects."""
        return self._listener.sock.fileno()

    # -- what the fabric calls

    def connection_to(self, lid: int) -> FabricConnection | None:
        """Return the connection to the member with this LID; None for other LIDs.

        Our own functions' LIDs are among the others.
        """
        return self._by_lid.get(lid)

    def everyone(self) -> Iterable[FabricConnection]:
        """Return the connections of all greeted members, to which a multicast packet is sent."""
        return [connection for connection, member in self._members.items() if member.is_greeted]

    def ports(self) -> Iterator[EndPort]:
        """Yield the ports that all members have reported, up or down, but none of our own."""
        for member in self._members.values():
            yield from member.ports.values()

    def announce(self, port: EndPort) -> None:
        """Schedule a report of all ports to every member; ``port`` itself is not evaluated."""
        self.reports.to_all()

    def close(self) -> None:
        """Disconnect every member and stop listening; remove the socket's path and lock file."""
        self.reports.cancel()
        for connection in list(self._members):
            connection.abandon()
        self._listener.close()

    # -- members

    def accept(self) -> None:
        """Accept waiting processes, up to ACCEPTS_PER_ROUND, and wait for the HELLO of each.

        A connection without HELLO is closed after GREETING_NS, or when it is the oldest of
        MAX_UNGREETED.
        """
        for _ in range(ACCEPTS_PER_ROUND):
            sock = self._listener.accept()
            if sock is None:
                return
            self._limit_ungreeted()
            self._count += 1
            connection = FabricConnection(
                sock, self, self._site.clock, f"fabric member {self._count}"
            )
            patience = self._site.clock.call_later(GREETING_NS, partial(self._hurry, connection))
            self._members[connection] = HubMember(self._count, patience=patience)
            self.watch(connection, READ)

    def _limit_ungreeted(self) -> None:
        """Close the oldest connection without HELLO once there are MAX_UNGREETED of them."""
        ungreeted = [one for one, member in self._members.items() if not member.is_greeted]
        if len(ungreeted) >= MAX_UNGREETED:
            ungreeted[0].close("too many connections without HELLO")

    def _hurry(self, connection: FabricConnection) -> None:
        """Close a connection that has not sent HELLO by its deadline; greeted ones stay."""
        member = self._members.get(connection)
        if member is not None and not member.is_greeted:
            connection.close("no HELLO within the time limit")

    def watch(self, connection: FabricConnection, events: int) -> None:
        """Wait for epoll events of a member's socket."""
        self._site.watch(connection, events)

    def received(self, connection: FabricConnection, kind: FrameKind, body: memoryview) -> int:
        """Handle a frame from a member; return its cost.

        Raises FabricProtocolError for anything but HELLO before the greeting, and afterwards for a
        kind that members do not send. Packets, trains and Ethernet frames are forwarded; PORT is
        stored and reported.
        """
        member = self._members[connection]
        if kind is _PACKET and member.is_greeted:
            return self._forward(connection, member, body)
        if kind is FrameKind.TRAIN and member.is_greeted:
            return self._forward_train(connection, body)
        if kind is _FRAME and member.has_ethernet:
            return self._site.ethernet.received(connection, body)
        if kind is FrameKind.FRAME_TRAIN and member.has_ethernet:
            return self._site.ethernet.received_train(connection, body)
        if not member.is_greeted:
            if kind is not FrameKind.HELLO:
                raise FabricProtocolError(f"{kind.name} before HELLO")
            self._greet(connection, member, body)
        elif kind is FrameKind.PORT:
            return self._take_port(connection, member, port_frames.read_port(body))
        else:
            raise FabricProtocolError(f"{kind.name} from a member")
        return 1

    def _take_port(self, source: FabricConnection, member: HubMember, port: EndPort) -> int:
        """Store a member's port, schedule a report to the others if it changed; return the cost.

        The GUID of a virtual function's port is the one that its physical function has set, if any.
        The GUID of another function is ignored with a warning. Raises FabricProtocolError unless
        the LID is assigned to that member.
        """
        if self._by_lid.get(port.lid) is not source:
            raise FabricProtocolError(f"port with LID {port.lid:#x} of another process")
        if member.ports.get(port.lid) == port:
            return 1 + (len(port.pkeys) >> _LOG_COMPARED_PER_COST)
        known = [(one.guid, one.lid) for one in self._used()]
        known += [(other.port_guid, other.lid) for other in self.ports()]
        if any(guid == port.port_guid and lid != port.lid for guid, lid in known):
            log.warning("GUID %#x of LID %#x belongs to another port", port.port_guid, port.lid)
        else:
            member.ports[port.lid] = port
            member.packed.pop(port.lid, None)
            self.reports.changed()
        return 1 + (len(port.pkeys) + len(known) >> _LOG_COMPARED_PER_COST)

    def _greet(self, connection: FabricConnection, member: HubMember, body: memoryview) -> None:
        """Answer HELLO with WELCOME and assigned numbers, or with REFUSED and a closed connection.

        Refused are a bad HELLO, one without functions, taken numbers, and more than MAX_MEMBERS
        processes or MAX_PORTS functions. A welcome links the member's Ethernet, and schedules
        reports of ports.
        """
        try:
            requested = protocol.read_hello(body)
            used = self._used()
            if not requested:
                raise FabricProtocolError("HELLO without functions")
            if sum(one.is_greeted for one in self._members.values()) >= MAX_MEMBERS:
                raise TakenError(f"more than {MAX_MEMBERS} processes on the fabric")
            if len(used) + len(requested) > MAX_PORTS:
                raise TakenError(f"more than {MAX_PORTS} functions on the fabric")
            member.identities = assign(requested, used, self._former)
        except (FabricProtocolError, TakenError) as error:
            connection.send(FrameKind.REFUSED, protocol.reason(str(error)))
            connection.close(f"refused: {error}")
            return
        member.is_greeted = True
        member.has_ethernet = any(identity.is_ethernet for identity in member.identities)
        for identity in member.identities:
            if not identity.is_ethernet:
                self._by_lid[identity.lid] = connection
        log.info("%s has joined: %s", connection.name, ", ".join(map(str, member.identities)))
        if member.has_ethernet:
            self.reports.to_all()  # reports the GUIDs, which PORT does not contain
        else:
            self.reports.later()
        connection.send(FrameKind.WELCOME, protocol.welcome(member.identities))
        if member.has_ethernet:
            self._site.ethernet.linked(connection, connection.name)

    def _used(self) -> list[Identity]:
        """Return the functions of this process and of all members."""
        used = [*self.identities]
        for member in self._members.values():
            used += member.identities
        return used

    def closed(self, connection: FabricConnection, why: str) -> None:
        """Remove a member whose connection has ended, with its LIDs, Ethernet ports and deadline.

        A non-empty ``why`` is logged as a warning. A member with reported ports causes a report to
        the others.
        """
        member = self._members.pop(connection)
        if member.patience is not None:
            member.patience.cancel()
        for identity in member.identities:
            self._by_lid.pop(identity.lid, None)
        if member.has_ethernet:
            self._site.ethernet.unlinked(connection)
        if why:
            log.warning("%s: connection dropped: %s", connection.name, why)
        else:
            log.info("%s has left", connection.name)
        if member.ports:
            self.reports.changed()

    # -- packets

    def _forward(self, source: FabricConnection, member: HubMember, body: memoryview) -> int:
        """Forward a packet from a member to its receivers in any process; return its cost.

        A packet for the sending process's own LIDs is dropped. Raises FabricProtocolError for a bad
        packet or a source LID that is not the sender's.
        """
        packet, by_lid = self._site.parse(body), self._by_lid
        if by_lid.get(packet.slid) is not source:
            raise _foreign(packet)
        target = by_lid.get(packet.dlid)
        if target is not None:
            if target is not source:
                target.send(FrameKind.PACKET, body)
            return 1
        receivers = 0
        if packet.is_multicast:
            for connection in self.everyone():
                if connection is not source:
                    connection.send(FrameKind.PACKET, body)
                    receivers += 1
        return receivers + self._site.deliver(packet, body)

    def _forward_train(self, source: FabricConnection, body: memoryview) -> int:
        """Forward a train from a member to our functions or another member; return its cost.

        A train for the sending process itself is dropped. Raises FabricProtocolError for a bad
        train or a source LID that is not the sender's.
        """
        train, by_lid = self._site.parse_train(body), self._by_lid
        if by_lid.get(train.first.slid) is not source:
            raise _foreign(train.first)
        target = by_lid.get(train.first.dlid)
        if target is None:
            return self._site.deliver_train(train)
        if target is not source:
            target.send_train(FrameKind.TRAIN, train.pieces)
        return TRAIN_WORK


def _foreign(packet: Packet) -> FabricProtocolError:
    return FabricProtocolError(f"packet with foreign source LID {packet.slid:#x}")

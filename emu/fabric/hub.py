"""The process of a fabric that listens: it gives numbers out, knows all ports and forwards packets.

Its own functions are ports like everybody's. A member that breaks the protocol, or sends a packet
under a LID that is not its own, loses its connection.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from emu.fabric import protocol
from emu.fabric.address import Listener
from emu.fabric.connection import READ, Connection
from emu.fabric.directory import TakenError, assign
from emu.fabric.protocol import MAX_PORTS, Identity, Kind, ProtocolError
from emu.port.ib.endport import EndPort
from emu.port.packet import Packet
from emu.ports import Clock, Timer

log = logging.getLogger(__name__)

MAX_MEMBERS = 64
GREETING_NS = 5_000_000_000
"""Who connects has so long to say HELLO."""


class Site(Protocol):
    """The process around a hub or a membership."""

    @property
    def clock(self) -> Clock:
        """The time, for connections."""

    def watch(self, connection: Connection, events: int) -> None:
        """Call ``connection.ready`` for these epoll events from now on."""

    def local_ports(self) -> Iterable[EndPort]:
        """The ports of our own functions, up or down."""

    def ports_changed(self) -> None:
        """The ports of other processes are not what they were."""

    def parse(self, frame: memoryview) -> Packet:
        """The packet in a frame. Raises ProtocolError."""

    def deliver(self, packet: Packet, length: int) -> None:
        """Take a packet for our own functions, if it is for them."""


@dataclass(slots=True)
class _Member:
    """Another process."""

    identities: list[Identity] = field(default_factory=list)
    ports: dict[int, EndPort] = field(default_factory=dict)
    """By LID, those that it has reported."""
    is_greeted: bool = False
    patience: Timer | None = None
    """Until it has to have said HELLO."""


class Hub:
    """The listening end of a fabric."""

    def __init__(
        self,
        site: Site,
        listener: Listener,
        wanted: Sequence[Identity],
        former: Iterable[Identity] = (),
    ) -> None:
        """``former`` are members of the hub before us, who may come back under their numbers.

        Raises :class:`TakenError` when the wanted numbers of our own functions clash.
        """
        self._site = site
        self._listener = listener
        self._former = list(former)
        self._members: dict[Connection, _Member] = {}
        self._ways: dict[int, Connection] = {}
        self._count = 0
        self._news: Timer | None = None
        """Everyone will be told about the ports in the loop's next round."""
        self.identities = assign(wanted, (), self._former)

    def fileno(self) -> int:
        """Readable when a process wants to become a member."""
        return self._listener.sock.fileno()

    # -- what the fabric asks

    def way(self, lid: int) -> Connection | None:
        """The connection that leads to a LID."""
        return self._ways.get(lid)

    def everyone(self) -> Iterable[Connection]:
        """The connections that a multicast packet takes."""
        return [connection for connection, member in self._members.items() if member.is_greeted]

    def ports(self) -> Iterator[EndPort]:
        """The ports of all members."""
        for member in self._members.values():
            yield from member.ports.values()

    def announce(self, port: EndPort) -> None:
        """A port of our own has changed."""
        self._tell()

    def close(self) -> None:
        """Let everyone go."""
        if self._news is not None:
            self._news.cancel()
        for connection in list(self._members):
            connection.abandon()
        self._listener.close()

    # -- members

    def accept(self) -> None:
        """Let the processes in that wait at the door."""
        while (sock := self._listener.accept()) is not None:
            if len(self._members) >= MAX_MEMBERS:
                log.warning("more than %d processes on the fabric", MAX_MEMBERS)
                sock.close()
                continue
            self._count += 1
            connection = Connection(sock, self, self._site.clock, f"fabric member {self._count}")
            patience = self._site.clock.call_later(GREETING_NS, partial(self._hurry, connection))
            self._members[connection] = _Member(patience=patience)
            self.watch(connection, READ)

    def _hurry(self, connection: Connection) -> None:
        member = self._members.get(connection)
        if member is not None and not member.is_greeted:
            connection.close("it has not said HELLO")

    def watch(self, connection: Connection, events: int) -> None:
        """Wait for a member's socket."""
        self._site.watch(connection, events)

    def received(self, connection: Connection, kind: Kind, body: memoryview) -> None:
        """A frame from a member."""
        member = self._members[connection]
        if not member.is_greeted:
            if kind is not Kind.HELLO:
                raise ProtocolError(f"{kind.name} before HELLO")
            self._greet(connection, member, body)
        elif kind is Kind.PACKET:
            self._forward(connection, member, body)
        elif kind is Kind.PORT:
            port = protocol.read_port(body)
            if Identity(port.lid, port.port_guid) not in member.identities:
                raise ProtocolError(f"port with LID {port.lid:#x}, which is not its own")
            member.ports[port.lid] = port
            self._changed()
        else:
            raise ProtocolError(f"{kind.name} from a member")

    def _greet(self, connection: Connection, member: _Member, body: memoryview) -> None:
        try:
            wanted = protocol.read_hello(body)
            taken = self._taken()
            if len(taken) + len(wanted) > MAX_PORTS:
                raise TakenError(f"more than {MAX_PORTS} functions on the fabric")
            member.identities = assign(wanted, taken, self._former)
        except (ProtocolError, TakenError) as error:
            connection.send(Kind.REFUSED, protocol.reason(str(error)))
            connection.close(f"refused: {error}")
            return
        member.is_greeted = True
        for identity in member.identities:
            self._ways[identity.lid] = connection
        lids = ", ".join(f"{identity.lid:#x}" for identity in member.identities)
        log.info("%s has joined: LID %s", connection.name, lids)
        connection.send(Kind.WELCOME, protocol.welcome(member.identities))
        self._publish_to(connection, member)

    def _taken(self) -> list[Identity]:
        taken = [*self.identities]
        for member in self._members.values():
            taken += member.identities
        return taken

    def closed(self, connection: Connection, why: str) -> None:
        """A member has gone, and its ports with it."""
        member = self._members.pop(connection)
        if member.patience is not None:
            member.patience.cancel()
        for identity in member.identities:
            self._ways.pop(identity.lid, None)
        if why:
            log.warning("%s: connection dropped: %s", connection.name, why)
        else:
            log.info("%s has left", connection.name)
        if member.ports:
            self._changed()

    # -- ports

    def _changed(self) -> None:
        self._site.ports_changed()
        self._tell()

    def _tell(self) -> None:
        """Once in a round: a member that changes its ports all the time is not to flood others."""
        if self._news is None:
            self._news = self._site.clock.call_later(0, self._publish)

    def _publish(self) -> None:
        self._news = None
        for connection, member in list(self._members.items()):
            if member.is_greeted:
                self._publish_to(connection, member)

    def _publish_to(self, connection: Connection, member: _Member) -> None:
        ports = [*self._site.local_ports()]
        for other in self._members.values():
            if other is not member:
                ports += other.ports.values()
        connection.send(Kind.PORTS, b"".join(map(protocol.port, ports)))

    # -- packets

    def _forward(self, source: Connection, member: _Member, body: memoryview) -> None:
        """A packet from a member: for us, for another one, or for everyone."""
        packet = self._site.parse(body)
        if self._ways.get(packet.slid) is not source:
            raise ProtocolError(f"packet from LID {packet.slid:#x}, which is not its own")
        way = self._ways.get(packet.dlid)
        if way is not None:
            if way is not source:
                way.send(Kind.PACKET, body)
            return
        if packet.is_multicast:
            for connection in self.everyone():
                if connection is not source:
                    connection.send(Kind.PACKET, body)
        self._site.deliver(packet, len(body))

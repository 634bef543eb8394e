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

from emu.net.ib import protocol
from emu.net.ib.address import Listener
from emu.net.ib.connection import READ, Connection
from emu.net.ib.directory import TakenError, assign
from emu.net.ib.protocol import MAX_PORTS, Identity, Kind, ProtocolError
from emu.port.ib.endport import EndPort
from emu.port.packet import Packet
from emu.ports import Clock, Timer

log = logging.getLogger(__name__)

MAX_MEMBERS = 64
MAX_STRANGERS = 64
"""Connections that have not said HELLO; for one more, the oldest of them has to go."""
ACCEPTS_PER_ROUND = 16
GREETING_NS = 5_000_000_000
"""Who connects has so long to say HELLO."""


class Site(Protocol):
    """The process around a hub or a membership."""

    @property
    def clock(self) -> Clock:
        """The time, for connections."""

    def watch(self, connection: Connection, events: int) -> None:
        """Serve a connection when these epoll events come, from now on."""

    def local_ports(self) -> Iterable[EndPort]:
        """The ports of our own functions, up or down."""

    def ports_changed(self) -> None:
        """The ports of other processes are not what they were."""

    def parse(self, frame: memoryview) -> Packet:
        """The packet in a frame. Raises ProtocolError."""

    def deliver(self, packet: Packet, length: int) -> int:
        """Take a packet for our own functions, if it is for them; how many receivers it had."""


@dataclass(slots=True)
class _Member:
    """Another process."""

    number: int
    identities: list[Identity] = field(default_factory=list)
    ports: dict[int, EndPort] = field(default_factory=dict)
    """By LID, those that it has reported."""
    is_greeted: bool = False
    is_informed: bool = False
    """Whether it knows all ports as they are."""
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
        self._has_changed = False
        """The ports of members are not what our own process knows of them."""
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
        """Let processes in that wait at the door; those that are left are the next round's."""
        for _ in range(ACCEPTS_PER_ROUND):
            sock = self._listener.accept()
            if sock is None:
                return
            self._make_room()
            self._count += 1
            connection = Connection(sock, self, self._site.clock, f"fabric member {self._count}")
            patience = self._site.clock.call_later(GREETING_NS, partial(self._hurry, connection))
            self._members[connection] = _Member(self._count, patience=patience)
            self.watch(connection, READ)

    def _make_room(self) -> None:
        """Whoever only stands in the door must not keep others out."""
        strangers = [one for one, member in self._members.items() if not member.is_greeted]
        if len(strangers) >= MAX_STRANGERS:
            strangers[0].close("others wait to say HELLO")

    def _hurry(self, connection: Connection) -> None:
        member = self._members.get(connection)
        if member is not None and not member.is_greeted:
            connection.close("it has not said HELLO")

    def watch(self, connection: Connection, events: int) -> None:
        """Wait for a member's socket."""
        self._site.watch(connection, events)

    def received(self, connection: Connection, kind: Kind, body: memoryview) -> int:
        """A frame from a member."""
        member = self._members[connection]
        if kind is Kind.PACKET and member.is_greeted:
            return self._forward(connection, member, body)
        if not member.is_greeted:
            if kind is not Kind.HELLO:
                raise ProtocolError(f"{kind.name} before HELLO")
            self._greet(connection, member, body)
        elif kind is Kind.PORT:
            self._take_port(member, protocol.read_port(body))
        else:
            raise ProtocolError(f"{kind.name} from a member")
        return 1

    def _take_port(self, member: _Member, port: EndPort) -> None:
        if Identity(port.lid, port.port_guid) not in member.identities:
            raise ProtocolError(f"port with LID {port.lid:#x}, which is not its own")
        if member.ports.get(port.lid) != port:
            member.ports[port.lid] = port
            self._changed()

    def _greet(self, connection: Connection, member: _Member, body: memoryview) -> None:
        try:
            wanted = protocol.read_hello(body)
            taken = self._taken()
            if not wanted:
                raise ProtocolError("a member without functions")
            if sum(one.is_greeted for one in self._members.values()) >= MAX_MEMBERS:
                raise TakenError(f"more than {MAX_MEMBERS} processes on the fabric")
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
        self._tell_later()
        connection.send(Kind.WELCOME, protocol.welcome(member.identities))

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
        """The ports of a member are not what they were."""
        self._has_changed = True
        self._tell()

    def _tell(self) -> None:
        """Everyone has to hear about the ports."""
        for member in self._members.values():
            member.is_informed = False
        self._tell_later()

    def _tell_later(self) -> None:
        """Once in a round: a member that changes its ports all the time is not to flood others."""
        if self._news is None:
            self._news = self._site.clock.call_later(0, self._publish)

    def _publish(self) -> None:
        """Tell our own process, and those that do not know yet; each port is packed once."""
        self._news = None
        if self._has_changed:
            self._has_changed = False
            self._site.ports_changed()
        own = b"".join(map(protocol.port, self._site.local_ports()))
        others = {
            member.number: b"".join(map(protocol.port, member.ports.values()))
            for member in self._members.values()
        }
        for connection, member in list(self._members.items()):
            if member.is_greeted and not member.is_informed:
                member.is_informed = True
                ports = [data for number, data in others.items() if number != member.number]
                connection.send(Kind.PORTS, b"".join((own, *ports)))

    # -- packets

    def _forward(self, source: Connection, member: _Member, body: memoryview) -> int:
        """A packet from a member: for us, for another one, or for everyone."""
        packet = self._site.parse(body)
        if self._ways.get(packet.slid) is not source:
            raise ProtocolError(f"packet from LID {packet.slid:#x}, which is not its own")
        way = self._ways.get(packet.dlid)
        if way is not None:
            if way is not source:
                way.send(Kind.PACKET, body)
            return 1
        receivers = 0
        if packet.is_multicast:
            for connection in self.everyone():
                if connection is not source:
                    connection.send(Kind.PACKET, body)
                    receivers += 1
        return receivers + self._site.deliver(packet, len(body))

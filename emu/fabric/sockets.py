"""A fabric of several processes: functions of one find those of the others over sockets.

Whoever comes first to the fabric's address is the hub and listens; the others connect to it. When
the hub goes, one of those that are left takes its place, and everyone keeps its numbers. The
subnet's administrator of the hub answers for the whole fabric, at a LID that belongs to none of the
functions. Between two functions of one process nothing changes.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from emu.endport import EndPort, end_port
from emu.engine import packet_io
from emu.engine.datagram import Datagram, Origin
from emu.engine.packet import BadPacketError, Packet, parse
from emu.engine.ud_packets import datagram_of, frame_of
from emu.fabric.address import FabricError, Listener
from emu.fabric.address import parse as parse_address
from emu.fabric.connection import Connection
from emu.fabric.directory import TakenError
from emu.fabric.hub import Hub
from emu.fabric.local import LocalFabric
from emu.fabric.member import Membership
from emu.fabric.protocol import Identity, Kind, ProtocolError
from emu.port import SM_LID
from emu.ports import Clock
from layouts.bth import Service
from layouts.enums import PhysState, PortState

if TYPE_CHECKING:
    from emu.hca import Hca

log = logging.getLogger(__name__)

RETRY_NS = 200_000_000
JOIN_TIMEOUT_NS = 15_000_000_000
PATIENCE_NS = 1_000_000_000
"""After so long it is said what is waited for."""
_DLID = slice(2, 4)
"""Where a packet's destination stands in its local route header."""


class Reactor(Clock, Protocol):
    """The loop that drives sockets and timers."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever ``fd`` is readable."""

    def remove_reader(self, fd: int) -> None:
        """Watch ``fd`` no longer."""

    def step(self, timeout_ns: int | None = 0) -> None:
        """One round, waiting at most so long."""


class SocketFabric(LocalFabric):
    """Implements :class:`emu.ports.Wire` where other processes have functions as well."""

    def __init__(self, name: str, loop: Reactor, wanted: Sequence[Identity]) -> None:
        """``wanted`` are the numbers that our functions shall have, 0 for any.

        Raises :class:`FabricError` for a name that is none.
        """
        super().__init__(loop)
        self._address = parse_address(name)
        self._loop = loop
        self._wanted = list(wanted)
        self._role: Hub | Membership | None = None
        self._trying: Membership | None = None
        self._former: list[Identity] = []
        """Who was on the fabric when the hub went."""
        self._unplugged: set[int] = set()
        """LIDs of our ports that are down because the fabric is not there."""
        self._why = "nobody answers"
        self._why_lost = ""
        self._is_refused = self._was_joined = self._is_closed = False
        self._epoll = select.epoll()
        self._watched: dict[int, Connection] = {}
        loop.add_reader(self._epoll.fileno(), self._ready)

    @property
    def clock(self) -> Clock:
        """The loop's time."""
        return self._loop

    @property
    def is_hub(self) -> bool:
        """Whether this process listens, and its administrator answers."""
        return isinstance(self._role, Hub)

    def join(self, timeout_ns: int = JOIN_TIMEOUT_NS) -> list[Identity]:
        """Become a part of the fabric; gives the numbers of our functions.

        Waits for the hub. Raises :class:`FabricError`.
        """
        start = self._loop.now_ns()
        says_at, end = start + PATIENCE_NS, start + timeout_ns
        self._try()
        while self._role is None:
            now = self._loop.now_ns()
            if self._is_refused or now >= end:
                raise FabricError(f"fabric {self._address}: {self._why}")
            if now >= says_at:
                log.warning("fabric %s: not there yet (%s): waiting", self._address, self._why)
                says_at = end
            self._loop.step(RETRY_NS)
        return self._wanted

    def close(self) -> None:
        """Leave the fabric."""
        self._is_closed = True
        for part in (self._trying, self._role):
            if part is not None:
                part.close()
        self._trying = self._role = None
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    # -- becoming a part of it

    def _try(self) -> None:
        """Connect to the hub; where there is none, be it."""
        if self._is_closed or self._role is not None or self._trying is not None:
            return
        try:
            sock = self._address.connect()
        except OSError:
            self._try_to_listen()
        else:
            self._trying = Membership(self, sock, self._wanted)

    def _try_to_listen(self) -> None:
        try:
            listener = self._address.listen()
        except OSError as error:
            self._say(error.strerror or str(error))
            self._is_refused = True
        else:
            if listener is not None and self._become_hub(listener):
                return
        self._loop.call_later(RETRY_NS, self._try)

    def _become_hub(self, listener: Listener) -> bool:
        try:
            hub = Hub(self, listener, self._wanted, self._former)
        except TakenError as error:
            listener.close()
            self.refused(str(error))
            return False
        self._role, self._wanted = hub, hub.identities
        self._epoll.register(hub.fileno(), select.EPOLLIN)
        log.info("fabric %s: we listen", self._address)
        self._settle()
        return True

    def joined(self, membership: Membership) -> None:
        """The hub has welcomed us."""
        assert membership.identities is not None
        self._trying, self._role = None, membership
        self._wanted = membership.identities
        log.info("fabric %s: joined", self._address)
        self._settle()

    def refused(self, why: str) -> None:
        """Our numbers are taken. Where we have been a member before, we go on asking."""
        self._trying = None
        self._say(why)
        self._is_refused = True
        self._loop.call_later(RETRY_NS, self._try)

    def lost(self, membership: Membership, why: str) -> None:
        """The connection to the hub has ended, or could not be made."""
        if membership is self._trying:
            self._trying = None
            self._why = why or self._why
            self._try_to_listen()
            return
        if not why or why != self._why_lost:
            log.warning("fabric %s: the hub has gone%s", self._address, f": {why}" if why else "")
        self._why_lost, self._why = why, why or "the hub has gone"
        self._former = [Identity(port.lid, port.port_guid) for port in membership.ports()]
        self._role = None
        for hca in self._nodes.values():
            self._unplug(hca)
        # A process that breaks the protocol may go on doing so.
        self._loop.call_later(RETRY_NS if why else 0, self._try)

    def _unplug(self, hca: Hca) -> None:
        """No fabric, no link: the guest hears of it, and of its return."""
        if hca.port.is_up:
            self._unplugged.add(hca.port.lid)
            hca.set_link(up=False)

    def _say(self, why: str) -> None:
        """Say once why we are not on the fabric."""
        if self._was_joined and why != self._why:
            log.warning("fabric %s: cannot come back: %s", self._address, why)
        self._why = why

    def _settle(self) -> None:
        """We are in. A new hub's administrator knows nothing of us: the guests' stacks tell it."""
        self._why, self._is_refused = "nobody answers", False
        unplugged, self._unplugged = self._unplugged, set()
        for lid, hca in self._nodes.items():
            if lid in unplugged:
                hca.set_link(up=True)
            self._announce(hca)
            if self._was_joined:
                hca.reregister()
        self._was_joined = True

    # -- sockets

    def watch(self, connection: Connection, events: int) -> None:
        """Call ``connection.ready`` for these epoll events from now on."""
        fd = connection.fileno()
        if self._watched.get(fd) is connection:
            self._epoll.modify(fd, events)
        else:
            # A closed socket has left the epoll set by itself; its number may be used again.
            self._watched[fd] = connection
            self._epoll.register(fd, events)

    def _ready(self) -> None:
        for fd, events in self._epoll.poll(0):
            if isinstance(self._role, Hub) and fd == self._role.fileno():
                self._role.accept()
            elif (connection := self._watched.get(fd)) is not None:
                connection.ready(events)

    # -- the subnet

    def attach(self, hca: Hca) -> None:
        """The function is reachable under its port's LID; after a reset its new self is."""
        if self.node(hca.port.lid) is not None and self._role is not None:
            gone = replace(end_port(hca), state=PortState.DOWN, phys_state=PhysState.POLLING)
            self._role.announce(gone)
        super().attach(hca)
        self._announce(hca)
        if self._was_joined and self._role is None:
            self._unplug(hca)

    def port_changed(self, hca: Hca) -> None:
        """The function's port has come up or gone down."""
        super().port_changed(hca)
        self._announce(hca)

    def _announce(self, hca: Hca) -> None:
        if self._role is not None:
            self._role.announce(end_port(hca))

    def local_ports(self) -> Iterator[EndPort]:
        """The ports of our own functions, up or down."""
        return map(end_port, self._nodes.values())

    def ports_changed(self) -> None:
        """The ports of other processes are not what they were."""
        if self.is_hub:
            self.sa.sweep()

    def end_ports(self) -> Iterator[EndPort]:
        """The ports of the whole fabric that are up, as the administrator sees them."""
        yield from super().end_ports()
        if self._role is not None:
            yield from (port for port in self._role.ports() if port.state is PortState.ACTIVE)

    # -- packets out

    def reaches(self, lid: int) -> bool:
        """Whether the node with this LID is in another process: packets go there."""
        return self._role is not None and self._role.way(lid) is not None

    def transmit(self, source: Hca, frame: bytes) -> bool:
        """Send a packet to another process; False when its way is congested."""
        way = self._way(int.from_bytes(frame[_DLID], "big"))
        return way is None or way.send(Kind.PACKET, frame)

    def when_room(self, lid: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when packets to this LID may be sent again."""
        way = self._way(lid)
        if way is None:
            callback()
        else:
            way.when_room(callback)

    def _way(self, lid: int) -> Connection | None:
        return self._role.way(lid) if self._role is not None else None

    def _carry(self, packet: Datagram, origin: Origin) -> None:
        """A datagram from one of our functions, or from our administrator."""
        ways: list[Connection] = []
        if packet.is_multicast or (packet.to.lid == SM_LID and not self.is_hub):
            ways += self._role.everyone() if self._role is not None else ()
        elif (way := self._way(packet.to.lid)) is not None:
            ways.append(way)
        if ways:
            frame = frame_of(packet, origin)
            for way in ways:
                way.send(Kind.PACKET, frame)
        self._carry_here(packet, origin)

    # -- packets in

    def parse(self, frame: memoryview) -> Packet:
        """The packet in a frame. Raises ProtocolError."""
        try:
            return parse(frame)
        except BadPacketError as error:
            raise ProtocolError(f"bad packet: {error}") from None

    def deliver(self, packet: Packet, length: int) -> None:
        """Take a packet for our own functions, if it is for them."""
        if packet.op.service is Service.UD:
            self._carry_here(*datagram_of(packet))
        elif (node := self.node(packet.dlid)) is not None:
            packet_io.receive(node, packet, length)

    def _carry_here(self, packet: Datagram, origin: Origin) -> None:
        """A datagram for our functions, or for our administrator when it is the fabric's."""
        if packet.to.lid != SM_LID or self.is_hub:
            super()._carry(packet, origin)

"""Membership in a fabric whose hub is another process."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from socket import socket
from typing import Protocol

from emu.device.port.ib.endport import EndPort
from emu.server.net.fabric import port_frames, protocol
from emu.server.net.fabric.connection import FabricConnection
from emu.server.net.fabric.errors import FabricProtocolError
from emu.server.net.fabric.hub_host import HubHost
from emu.server.net.fabric.protocol import FrameKind, Identity
from emu.server.net.poller import READ

log = logging.getLogger(__name__)

_PACKET = FrameKind.PACKET
_FRAME = FrameKind.FRAME


class MembershipOwner(Protocol):
    """The owner of the membership, which handles its changes."""

    def joined(self, membership: Membership, identities: list[Identity]) -> None:
        """Handle that the hub accepted us and assigned these LIDs and GUIDs."""

    def refused(self, why: str) -> None:
        """Handle that the hub refused us."""

    def lost(self, membership: Membership, why: str) -> None:
        """Handle the end or failure of the connection; ``why`` is empty after an orderly end."""


class Membership:
    """The connection to the hub, from the first connection attempt on."""

    def __init__(
        self, site: HubHost, owner: MembershipOwner, sock: socket, requested: Sequence[Identity]
    ) -> None:
        self._site = site
        self._owner = owner
        self._requested = list(requested)
        self._ports: dict[int, EndPort] = {}
        self._ethernet: list[Identity] = []
        """The Ethernet functions of all other processes."""
        self.identities: list[Identity] | None = None
        """LIDs and GUIDs of our functions; None until the hub has accepted us."""
        self._has_ethernet = False
        """Whether one of them has an Ethernet port."""
        self.connection = FabricConnection(sock, self, site.clock, "the fabric's hub")
        self.watch(self.connection, READ)
        self.connection.send(FrameKind.HELLO, protocol.hello(requested))

    # -- what the fabric calls

    def connection_to(self, lid: int) -> FabricConnection | None:
        """Return the hub's connection for a LID of another process; None for other LIDs."""
        return self.connection if lid in self._ports else None

    def everyone(self) -> Iterable[FabricConnection]:
        """Return the hub's connection: the hub forwards multicast packets."""
        return (self.connection,)

    def ports(self) -> Iterable[EndPort]:
        """Return the ports of all other processes."""
        return self._ports.values()

    def announce(self, port: EndPort) -> None:
        """Report a changed port of our own to the hub."""
        self.connection.send(FrameKind.PORT, port_frames.port(port))

    def close(self) -> None:
        """Leave the fabric: close the connection to the hub, without a call of ``lost``.

        The Ethernet ports behind the connection are removed.
        """
        self._unlink()
        self.connection.abandon()

    def others(self) -> list[Identity]:
        """Return the functions of all other processes."""
        return [Identity(port.lid, port.port_guid) for port in self.ports()] + self._ethernet

    def _unlink(self) -> None:
        if self._has_ethernet:
            self._site.ethernet.unlinked(self.connection)

    # -- the connection

    def watch(self, connection: FabricConnection, events: int) -> None:
        """Wait for epoll events of the hub's socket."""
        self._site.watch(connection, events)

    def received(self, connection: FabricConnection, kind: FrameKind, body: memoryview) -> int:
        """Handle a frame from the hub; return its cost.

        Before the greeting only WELCOME and REFUSED are valid. GUIDS and PORTS replace the known
        functions and ports of other processes. Raises FabricProtocolError for other kinds, bad
        bodies, and PORTS with a LID of ours.
        """
        if self.identities is None:
            self._greeted(kind, body)
        elif kind is _PACKET:
            return self._site.deliver(self._site.parse(body), body)
        elif kind is _FRAME and self._has_ethernet:
            return self._site.ethernet.received(connection, body)
        elif kind is FrameKind.FRAME_TRAIN and self._has_ethernet:
            return self._site.ethernet.received_train(connection, body)
        elif kind is FrameKind.GUIDS:
            self._ethernet = protocol.read_guids(body)
            return 1 + len(self._ethernet)
        elif kind is FrameKind.GROUP:
            self._site.group_changed(*protocol.read_group(body))
        elif kind is FrameKind.TRAIN:
            return self._site.deliver_train(self._site.parse_train(body))
        elif kind is FrameKind.PORTS:
            own = {identity.lid for identity in self.identities}
            ports = {port.lid: port for port in port_frames.read_ports(body)}
            if own & ports.keys():
                raise FabricProtocolError("PORTS contains a port of ours")
            self._ports = ports
            self._site.ports_changed()
            return 1 + len(ports)
        else:
            raise FabricProtocolError(f"{kind.name} from the hub")
        return 1

    def _greeted(self, kind: FrameKind, body: memoryview) -> None:
        """Handle the answer to HELLO: WELCOME makes us a member, REFUSED closes the connection.

        The owner is notified of both. Raises FabricProtocolError for any other kind or a bad
        WELCOME.
        """
        if kind is FrameKind.REFUSED:
            self._owner.refused(protocol.read_reason(body))
            self.connection.abandon()
        elif kind is FrameKind.WELCOME:
            self.identities = protocol.read_welcome(body, self._requested)
            self._has_ethernet = any(one.is_ethernet for one in self.identities)
            self._owner.joined(self, self.identities)
            if self._has_ethernet:
                self._site.ethernet.linked(self.connection, "fabric")
        else:
            raise FabricProtocolError(f"{kind.name} before WELCOME")

    def closed(self, connection: FabricConnection, why: str) -> None:
        """Remove the Ethernet ports behind the connection, and call the owner's ``lost``."""
        self._unlink()
        self._owner.lost(self, why)

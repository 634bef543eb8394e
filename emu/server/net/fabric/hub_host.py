"""The process around a hub or a membership, as a protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from emu.device.port.ib.endport import EndPort
from emu.device.port.packet import Packet
from emu.device.port.train import Train
from emu.device.ports import Clock
from emu.server.net.fabric.connection import FabricConnection


class FrameCarrier(Protocol):
    """Carries the Ethernet frames of the process."""

    def linked(self, connection: FabricConnection, name: str) -> None:
        """Add a port for the connection, behind which are Ethernet ports, to every segment."""

    def unlinked(self, connection: FabricConnection) -> None:
        """Remove the ports of a connection that has ended."""

    def received(self, connection: FabricConnection, body: memoryview) -> int:
        """Handle a FRAME; return its cost. FabricProtocolError closes the connection."""

    def received_train(self, connection: FabricConnection, body: memoryview) -> int:
        """Handle a FRAME_TRAIN; return its cost. FabricProtocolError closes the connection."""


class HubHost(Protocol):
    """The process around a hub or a membership."""

    @property
    def clock(self) -> Clock:
        """The clock of the connections."""

    @property
    def ethernet(self) -> FrameCarrier:
        """The Ethernet segments of the process."""

    def watch(self, connection: FabricConnection, events: int) -> None:
        """Serve a connection when these epoll events occur."""

    def local_ports(self) -> Iterable[EndPort]:
        """Return the ports of our own functions, up or down."""

    def ports_changed(self) -> None:
        """Handle that ports of other processes have changed."""

    def group_changed(self, mlid: int, gid: bytes, listens: bool) -> None:
        """Record whether a multicast LID leads to the port with this GID; ignore foreign GIDs."""

    def parse(self, frame: memoryview) -> Packet:
        """Return the packet of a frame. Raises FabricProtocolError for a malformed one."""

    def deliver(self, packet: Packet, frame: memoryview) -> int:
        """Deliver a packet to our own functions; return the number of receivers."""

    def parse_train(self, frame: memoryview) -> Train:
        """Return the train of a frame. Raises FabricProtocolError for a malformed one."""

    def deliver_train(self, train: Train) -> int:
        """Deliver a train to our own functions; return its cost."""

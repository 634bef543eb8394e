"""The process around a hub or a membership, as these two see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from emu.device.port.ib.endport import EndPort
from emu.device.port.packet import Packet
from emu.device.port.train import Train
from emu.device.ports import Clock
from emu.server.net.fabric.connection import FabricConnection


class FrameCarrier(Protocol):
    """What carries the Ethernet frames of the process."""

    def linked(self, connection: FabricConnection, name: str) -> None:
        """Ethernet ports are behind this connection from now on."""

    def unlinked(self, connection: FabricConnection) -> None:
        """The connection has ended."""

    def received(self, connection: FabricConnection, body: memoryview) -> int:
        """A FRAME; returns how much work it was. FabricProtocolError closes the connection."""

    def received_train(self, connection: FabricConnection, body: memoryview) -> int:
        """A FRAME_TRAIN; as above."""


class HubHost(Protocol):
    """The process around a hub or a membership."""

    @property
    def clock(self) -> Clock:
        """The clock that connections use."""

    @property
    def ethernet(self) -> FrameCarrier:
        """The Ethernet segments of the process."""

    def watch(self, connection: FabricConnection, events: int) -> None:
        """From now on, serve a connection when these epoll events occur."""

    def local_ports(self) -> Iterable[EndPort]:
        """The ports of our own functions, up or down."""

    def ports_changed(self) -> None:
        """The ports of other processes have changed."""

    def group_changed(self, mlid: int, gid: bytes, listens: bool) -> None:
        """The hub has a multicast LID lead to a port of ours, or not any more."""

    def parse(self, frame: memoryview) -> Packet:
        """The packet in a frame. Raises FabricProtocolError."""

    def deliver(self, packet: Packet, frame: memoryview) -> int:
        """Take a packet if it is for our own functions; returns how many receivers it had."""

    def parse_train(self, frame: memoryview) -> Train:
        """The train in a frame. Raises FabricProtocolError."""

    def deliver_train(self, train: Train) -> int:
        """Take a train if it is for one of our own functions; returns how much work it was."""

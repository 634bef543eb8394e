"""Ethernet segments that span processes, over the fabric's sockets.

The fabric is a star, and its segments are stars too. In the hub each member is a port of every
segment; in a member the hub is a port. The hub's switches learn which member an address is behind.
Super-frames stay whole and checksums unfinished between processes of mlx5emu.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.device.port.eth.frame import MIN_BYTES, Frame
from emu.device.port.eth.plain import is_sound
from emu.device.port.eth.roce.trains import parse_train
from emu.device.port.packet import BadPacketError
from emu.device.port.train import Train
from emu.device.ports import Buffer
from emu.device.rounds.sizes import TRAIN_WORK
from emu.server.net.eth.port import SegmentPort
from emu.server.net.eth.segments import Segments
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.fabric import protocol
from emu.server.net.fabric.connection import FabricConnection
from emu.server.net.fabric.protocol import FrameKind


class _Uplink(SegmentPort):
    """The port of a segment that leads to another process."""

    is_uplink = True
    is_fabric = True

    def __init__(self, name: str, number: int, connection: FabricConnection) -> None:
        super().__init__(name)
        self._number = number
        self._connection = connection

    @property
    def is_pausing(self) -> bool:
        """Whether PAUSE_BYTES of packets wait for the other process; False once closed or stuck."""
        return self._connection.is_pausing

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the queue has space, or when the connection is closed."""
        self._connection.when_ready(callback)

    def deliver(self, frame: Frame) -> None:
        """Send a frame to the other process; count "queue full" if its connection is congested."""
        if self._connection.is_congested:
            self.dropped["queue full"] += 1
        else:
            self.sent += 1
            self._connection.send(FrameKind.FRAME, protocol.ethernet(self._number, frame))

    @property
    def takes_trains(self) -> bool:
        """Whether the connection is not congested."""
        return not self._connection.is_congested

    def deliver_train(self, pieces: Sequence[Buffer], train: Train | None = None) -> bool:
        """Send a train to the other process; return False to pause senders, as ``send_train``."""
        self.sent += 1
        return self._connection.send_train(
            FrameKind.FRAME_TRAIN, (protocol.segment(self._number), *pieces)
        )


class Uplinks:
    """Implements :class:`emu.server.net.fabric.hub_host.FrameCarrier`."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments
        self._ports: dict[FabricConnection, dict[int, _Uplink]] = {}
        self._names: dict[FabricConnection, str] = {}
        segments.on_new = self._join

    def linked(self, connection: FabricConnection, name: str) -> None:
        """Add a port for this connection to every segment, also to those created later."""
        self._ports[connection] = {}
        self._names[connection] = name
        for number, switch in self.segments.all():
            self._add(connection, number, switch)

    def _join(self, number: int, switch: SegmentSwitch) -> None:
        """Add a port for each connection to a new segment."""
        for connection in self._ports:
            self._add(connection, number, switch)

    def _add(self, connection: FabricConnection, number: int, switch: SegmentSwitch) -> None:
        """Add a port for a connection to a segment."""
        port = _Uplink(self._names[connection], number, connection)
        self._ports[connection][number] = port
        switch.add(port)

    def unlinked(self, connection: FabricConnection) -> None:
        """Remove the ports of an ended connection from all segments, if the connection is known."""
        self._names.pop(connection, None)
        for number, port in self._ports.pop(connection, {}).items():
            self.segments.segment(number).remove(port)

    def received(self, connection: FabricConnection, body: memoryview) -> int:
        """Forward a frame from another process; return the number of packets, over all ports.

        A super-frame counts as its packets; those above a function's limit for a round wait in the
        socket and are not lost. Count "malformed" for a short frame or a super-frame that cannot be
        cut. Raises FabricProtocolError for a bad FRAME header.
        """
        number, frame = protocol.read_ethernet(body)
        switch = self.segments.segment(number)
        port = self._ports[connection][number]
        if len(frame.data) < MIN_BYTES or not is_sound(frame):
            port.dropped["malformed"] += 1
            return 1
        switch.forward(port, frame)
        packets = -(-len(frame.data) // frame.gso_size) if frame.gso_size else 1
        return packets * (len(switch.ports) if frame.data[0] & 1 else 1)

    def received_train(self, connection: FabricConnection, body: memoryview) -> int:
        """Forward a train of RoCE packets from another process; return its cost.

        A train that is cut counts as its frames, as in :meth:`received`. Count "malformed" for a
        bad train. Raises FabricProtocolError for a truncated header.
        """
        number, frame = protocol.read_train(body)
        switch = self.segments.segment(number)
        port = self._ports[connection][number]
        try:
            train = parse_train(frame)
        except BadPacketError:
            port.dropped["malformed"] += 1
            return TRAIN_WORK
        if switch.forward_train(port, train):
            return TRAIN_WORK
        return train.count * (len(switch.ports) if train.head[0] & 1 else 1)

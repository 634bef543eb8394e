"""Trains: middle packets of one message that travel together between processes of ours.

The packets of a long message differ by PSN and payload only, except for its first and its last one.
Where both ends of a way are ours, many of them go as one frame: the headers of the first of them,
then the payloads of all. Who takes a train does for each packet what it would have done, at once
where nothing is in the way, else packet by packet. No hardware knows trains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emu.device.port.packet import BadPacketError, Packet
from emu.device.ports import Buffer
from layouts.wire.bth import ICRC_BYTES, PSN_MASK
from layouts.wire.packet_ops import WITH_PAYLOAD, Position

MAX_PACKETS: Final = 64
"""Packets of a train that is taken."""
TRAIN_PACKETS: Final = 32
"""Of one that is sent: of those in a requester's window, some arrive while others are sent."""
_MTUS: Final = (256, 512, 1024, 2048, 4096)


class Train:
    """Packets of one message in a row, each with a whole MTU of payload.

    Another process may change the frame of a train while it is read. Headers are therefore read
    from ``head``, a copy that is made once; only ``payload`` is a view of the frame.
    """

    __slots__ = ("count", "first", "head", "mtu", "payload")

    def __init__(self, first: Packet, head: bytes, payload: memoryview) -> None:
        """``payload`` is that of all packets. If ``first`` wants an ACK, the last one does."""
        self.first = first
        self.head = head
        """All headers of the first packet, from the link layer's on."""
        self.payload = payload
        self.mtu = len(first.payload)
        self.count = len(payload) // self.mtu

    @property
    def length(self) -> int:
        """Bytes of the frame of each packet."""
        return len(self.head) + self.mtu + ICRC_BYTES

    @property
    def pieces(self) -> tuple[Buffer, ...]:
        """The frame of the train, with the headers that were read."""
        return self.head, self.payload, bytes(ICRC_BYTES)

    @property
    def end(self) -> int:
        """The PSN after the last packet."""
        return (self.first.psn + self.count) & PSN_MASK

    def packets(self) -> Iterator[Packet]:
        """Each by itself; their payloads are views of the train's."""
        first, mtu = self.first, self.mtu
        for number in range(self.count):
            packet = Packet(first.op, first.qpn, (first.psn + number) & PSN_MASK)
            packet.dlid, packet.slid, packet.sl = first.dlid, first.slid, first.sl
            packet.pkey, packet.grh, packet.srqn = first.pkey, first.grh, first.srqn
            packet.is_migrated = first.is_migrated
            packet.ack_request = first.ack_request and number == self.count - 1
            packet.payload = self.payload[number * mtu : (number + 1) * mtu]
            yield packet


def front_of(head: bytes, length: int) -> memoryview:
    """Return a frame of ``length`` bytes that begins with ``head``, for a parser of its headers."""
    return memoryview(head.ljust(length, b"\0"))[:length]


def train_of(first: Packet, frame: memoryview, head: bytes, length: int) -> Train:
    """Return the train in a frame, whose first packet alone would have ``length`` bytes.

    ``head`` is the copy of the frame's front that ``first`` was parsed from, and has all headers.
    Raise BadPacketError unless ``first`` is a middle packet of a message, with others behind it.
    """
    mtu, others = len(first.payload), len(frame) - length
    if first.op.position is not Position.MIDDLE or first.op.kind not in WITH_PAYLOAD:
        raise BadPacketError(f"{first.op} in a train")
    if mtu not in _MTUS or others <= 0 or others % mtu or others >= MAX_PACKETS * mtu:
        raise BadPacketError(f"train of {len(frame)} bytes, with {mtu} in each packet")
    end = len(frame) - ICRC_BYTES
    start = length - ICRC_BYTES - mtu
    payload = frame[start:end]
    first.payload = payload[:mtu]
    return Train(first, head[:start], payload)

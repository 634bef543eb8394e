"""Trains: middle packets of one message in one frame between mlx5emu processes.

The packets of a long message differ only in PSN and payload, except the first and the last one.
Between mlx5emu processes, many packets are sent as one frame: the headers of the first packet, then
the payloads of all. The receiver processes a train at once where possible, else packet by packet,
with the same result. No hardware supports trains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emu.device.port.packet import BadPacketError, Packet
from emu.device.ports import Buffer
from layouts.wire.bth import ICRC_BYTES, PSN_MASK
from layouts.wire.packet_ops import WITH_PAYLOAD, Position

MAX_PACKETS: Final = 64
"""Maximum packets of a received train."""
TRAIN_PACKETS: Final = 32
"""Maximum packets of a sent train, so that several trains of a window can be in flight."""
_MTUS: Final = (256, 512, 1024, 2048, 4096)


class Train:
    """Consecutive packets of one message, each with a whole MTU of payload.

    Another process may change the frame of a train during parsing. Headers are therefore read from
    ``head``, a copy that is made once; only ``payload`` is a view of the frame.
    """

    __slots__ = ("count", "first", "head", "mtu", "payload")

    def __init__(self, first: Packet, head: bytes, payload: memoryview) -> None:
        """Create a train with all packets' ``payload``; the last packet has the ACK request."""
        self.first = first
        self.head = head
        """All headers of the first packet, from the link layer's on."""
        self.payload = payload
        self.mtu = len(first.payload)
        self.count = len(payload) // self.mtu

    @property
    def length(self) -> int:
        """Bytes of each packet's frame."""
        return len(self.head) + self.mtu + ICRC_BYTES

    @property
    def pieces(self) -> tuple[Buffer, ...]:
        """The frame of the train, with the headers that were parsed."""
        return self.head, self.payload, bytes(ICRC_BYTES)

    @property
    def end(self) -> int:
        """The PSN after the last packet."""
        return (self.first.psn + self.count) & PSN_MASK

    def packets(self) -> Iterator[Packet]:
        """Yield each packet with its own PSN; payloads are views of the train's.

        Only the last packet has the first one's ACK request.
        """
        first, mtu = self.first, self.mtu
        for number in range(self.count):
            packet = Packet().of(first.op, first.qpn, (first.psn + number) & PSN_MASK)
            packet.dlid, packet.slid, packet.sl = first.dlid, first.slid, first.sl
            packet.pkey, packet.grh, packet.srqn = first.pkey, first.grh, first.srqn
            packet.is_migrated = first.is_migrated
            packet.ack_request = first.ack_request and number == self.count - 1
            packet.payload = self.payload[number * mtu : (number + 1) * mtu]
            yield packet


def front_of(head: bytes, length: int) -> memoryview:
    """Return a frame of ``length`` bytes that begins with ``head``, for a header parser."""
    return memoryview(head.ljust(length, b"\0"))[:length]


def train_of(first: Packet, frame: memoryview, head: bytes, length: int) -> Train:
    """Return the train in a frame, whose first packet alone has ``length`` bytes.

    ``head`` is the copy of the frame's front from which ``first`` was parsed, with all headers.
    Raises BadPacketError unless ``first`` is a middle packet of a message with a whole MTU of
    payload. One to MAX_PACKETS - 1 packets of the same size must follow.
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

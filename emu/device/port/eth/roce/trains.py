"""Trains of RoCE packets (``emu.device.port.train``) in frames between mlx5emu processes.

The frame of a train begins like the frame of its first packet and ends with an invariant CRC field.
The field is unused, as the sockets that carry trains do not damage them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emu.device.port.eth.headers import ETHERNET_BYTES
from emu.device.port.eth.roce.framing import IPV6_BYTES, TAG_BYTES, UDP_BYTES
from emu.device.port.eth.roce.reading import (
    BadFrameError,
    network_header,
    packet_in,
    read_headers,
    seal,
    transport_header,
)
from emu.device.port.packet import MAX_BYTES, MAX_PAYLOAD
from emu.device.port.train import MAX_PACKETS, Train, front_of, train_of
from layouts.wire.bth import ACK_REQUEST, ICRC_BYTES, bth

HEAD_BYTES: Final = ETHERNET_BYTES + TAG_BYTES + IPV6_BYTES + UDP_BYTES + bth.size + 8
"""Bytes of a frame's front with all headers that are parsed."""
MAX_TRAIN_BYTES: Final = HEAD_BYTES + MAX_BYTES + (MAX_PACKETS - 1) * MAX_PAYLOAD
_PSN_AT: Final = 8
"""Offset of the word with the PSN in a BTH."""


def parse_train(frame: memoryview) -> Train:
    """Return the train in a frame, whose payload is a view of the frame.

    Raises BadPacketError for a frame that is not RoCE or has only one packet. The same applies if
    the first packet is not from a message's middle. The invariant CRC is not checked.
    """
    head = bytes(frame[:HEAD_BYTES])
    at = network_header(head)
    if not at:
        raise BadFrameError("bad length", "train is not a RoCE frame")
    start, size, _, grh = read_headers(head, at)
    length = start + size
    if length >= len(frame) or len(frame) > MAX_TRAIN_BYTES or size > MAX_BYTES:
        raise BadFrameError("bad length", f"train {len(frame)}, packet {size}")
    return train_of(packet_in(front_of(head, length), start, grh), frame, head, length)


def frames_of(train: Train) -> Iterator[bytes]:
    """Yield the frames of a train's packets, each with its own invariant CRC."""
    front = bytearray(train.head)
    at = network_header(front)
    psn_at = transport_header(front, at) + _PSN_AT
    for packet in train.packets():
        word = packet.psn | ACK_REQUEST if packet.ack_request else packet.psn
        front[psn_at : psn_at + 4] = word.to_bytes(4, "big")
        one = bytearray().join((front, packet.payload, bytes(ICRC_BYTES)))
        seal(one, at)
        yield bytes(one)

"""IP over InfiniBand: the contents of its datagrams, and their checksums.

A packet has an encapsulation header of 4 bytes (an Ethertype and two reserved bytes) and the IP
packet (RFC 4391 6). Code for Ethernet frames gets the packet as a frame with zero MAC addresses.
"""

from __future__ import annotations

from typing import Final

from emu.device.port.eth import checksum
from emu.device.port.eth.headers import ETHERNET_BYTES, FrameError, parse
from emu.device.port.eth.segment import segment
from layouts.enums.cqe import CqeChecked

ENCAPSULATION_BYTES: Final = 4
_ETHERTYPE_BYTES: Final = 2
_NO_ADDRESSES: Final = bytes(ETHERNET_BYTES - _ETHERTYPE_BYTES)
_L3: Final = int(CqeChecked.L3)
_ALL: Final = int(CqeChecked.L3 | CqeChecked.L4)


def as_frame(packet: bytes) -> bytes:
    """Return the packet as a frame. Raises :class:`FrameError` without encapsulation header."""
    if len(packet) < ENCAPSULATION_BYTES:
        raise FrameError("packet ends inside its encapsulation header")
    return _NO_ADDRESSES + packet[:_ETHERTYPE_BYTES] + packet[ENCAPSULATION_BYTES:]


def insert(packet: bytes, *, l3: bool, l4: bool) -> bytes:
    """Return the packet with checksums filled in (``emu.device.port.eth.checksum.insert``)."""
    frame = checksum.insert(parse(as_frame(packet)), l3, l4)
    return packet[:ENCAPSULATION_BYTES] + frame[ETHERNET_BYTES:]


def cut(header: bytes, payload: bytes, mss: int) -> list[bytes]:
    """Return the packets of a large send (``emu.device.port.eth.segment.segment``).

    ``header`` is all bytes before the payload, from the encapsulation header on. Raises FrameError.
    """
    front = header[:ENCAPSULATION_BYTES]
    return [front + frame[ETHERNET_BYTES:] for frame in segment(as_frame(header), payload, mss)]


def checked(packet: bytes) -> int:
    """Return cqe64.hds_ip_ext: the flags of a right IP checksum, and of a right TCP or UDP one.

    0 for a wrong or no IP header. Linux trusts no packet that lacks one of them (hw/cq.c:
    handle_responder).
    """
    try:
        _, l3_ok, l4_ok = checksum.verify(parse(as_frame(packet)))
    except FrameError:
        return 0
    if not l3_ok:
        return 0
    return _ALL if l4_ok else _L3

"""Parsing of received RoCE frames: offsets of headers, and the packet (see ``framing.py``)."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final
from zlib import crc32

from emu.device.port.eth.headers import ETHERNET_BYTES, UDP
from emu.device.port.eth.roce.framing import (
    BTH_MASKED,
    CTAG,
    GRH,
    GRH_BYTES,
    ICRC,
    IPV4_BYTES,
    IPV4_IN_5_WORDS,
    IPV6_BYTES,
    MAPPED_PREFIX,
    MASKED_WORD,
    ONES,
    ROCE_PORT,
    ROCE_PORT_AT,
    TAG_BYTES,
    UDP_BYTES,
    V4,
    V6,
)
from emu.device.port.packet import (
    MAX_BYTES,
    SMALLEST_BYTES,
    BadPacketError,
    GlobalHeader,
    Packet,
    parse_transport,
)
from layouts.enums.roce import RoceVersion
from layouts.wire.bth import GRH_NEXT_IBA, GRH_VERSION, ICRC_BYTES

_FRAGMENT: Final = 0x3FFF
"""More fragments, and the offset."""

_KEPT_HEADERS: Final = 1024
"""Maximum number of different headers of each kind that are kept with what they say."""
_V1: Final = RoceVersion.VERSION_1
_V2: Final = RoceVersion.VERSION_2
_read_icrc: Final = ICRC.unpack_from
_unpack_ipv4: Final = Struct(">BBHHHBBH8sHHHH4s").unpack
_unpack_ipv6: Final = Struct(">IHBB16s16sHHHH4s").unpack
_unpack_grh: Final = Struct(">IHBB16s16s4s").unpack
_mask_ipv4: Final = Struct(">8sBBHHHBBH8sHHHH4sB").pack
_mask_ipv6: Final = Struct(">8sIHBB16s16sHHHH4sB").pack
_mask_grh: Final = Struct(">8sIHBB16s16s4sB").pack


class BadFrameError(BadPacketError):
    """A frame to drop. ``kind`` is fixed text, for counters."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(f"{kind}: {why}")
        self.kind = kind


def network_header(frame: bytes | bytearray) -> int:
    """Return the offset of a RoCE frame's IP or global route header; 0 for other frames.

    Fragments (which have no UDP header), IPv4 headers with options and IPv6 headers with extensions
    are not RoCE. Lengths and checksums are left to :func:`parse`.
    """
    at = ETHERNET_BYTES + TAG_BYTES if frame[12:14] == CTAG else ETHERNET_BYTES
    kind = frame[at - 2 : at]
    if kind == GRH:
        is_roce = (
            len(frame) >= at + GRH_BYTES
            and frame[at] >> 4 == GRH_VERSION
            and frame[at + 6] == GRH_NEXT_IBA
        )
    elif frame.find(ROCE_PORT, *ROCE_PORT_AT) < 0:
        return 0
    elif kind == V4:
        is_roce = (
            frame[at + 22 : at + 24] == ROCE_PORT
            and frame[at] == IPV4_IN_5_WORDS
            and frame[at + 9] == UDP
            and not int.from_bytes(frame[at + 6 : at + 8], "big") & _FRAGMENT
        )
    else:
        is_roce = (
            kind == V6
            and frame[at + 42 : at + 44] == ROCE_PORT
            and frame[at] >> 4 == 6
            and frame[at + 6] == UDP
        )
    return at if is_roce else 0


def version_of(frame: bytes | bytearray, at: int) -> RoceVersion:
    """Return the RoCE version of a frame whose network header begins at ``at``."""
    return _V1 if frame[at - 2 : at] == GRH else _V2


def addresses(frame: bytes | bytearray, at: int) -> tuple[bytes, bytes]:
    """Return source and destination GID of a frame whose network header begins at ``at``."""
    if frame[at] == IPV4_IN_5_WORDS:
        return MAPPED_PREFIX + frame[at + 12 : at + 16], MAPPED_PREFIX + frame[at + 16 : at + 20]
    return bytes(frame[at + 8 : at + 24]), bytes(frame[at + 24 : at + 40])


def tag_of(frame: bytes, at: int) -> int | None:
    """Return the TCI of the frame's VLAN tag; None without a tag."""
    return int.from_bytes(frame[14:16], "big") if at > ETHERNET_BYTES else None


def transport_header(frame: bytes | bytearray, at: int) -> int:
    """Return the offset of the base transport header behind a network header at ``at``."""
    if frame[at - 2 : at] == GRH:
        return at + GRH_BYTES
    return at + (IPV4_BYTES if frame[at] == IPV4_IN_5_WORDS else IPV6_BYTES) + UDP_BYTES


def seal(frame: bytearray, at: int) -> None:
    """Store the right invariant CRC in a frame that :func:`parse` otherwise accepts.

    Raises :class:`BadFrameError` for a frame with malformed headers.
    """
    start, length, crc, _ = read_headers(frame, at)
    end = start + length - ICRC_BYTES
    ICRC.pack_into(frame, end, crc32(frame[start + BTH_MASKED : end], crc))


def parse(frame: bytes | bytearray, at: int) -> Packet:
    """Return the packet in a frame whose :func:`network_header` begins at ``at``.

    Its payload is a view of ``frame``; bytes behind the length in the headers are padding. The UDP
    checksum is not checked, because the invariant CRC covers more. Raises :class:`BadFrameError`,
    whose ``kind`` is "bad length", "bad IPv4 checksum", "bad ICRC" or "bad transport header".
    """
    size = len(frame)
    start, length, crc, grh = read_headers(frame, at)
    end = start + length
    if end > size or not SMALLEST_BYTES <= length <= MAX_BYTES:
        raise BadFrameError("bad length", f"frame {size}, packet {length}")
    view = memoryview(frame)
    if crc32(view[start + BTH_MASKED : end - ICRC_BYTES], crc) != _read_icrc(frame, end - 4)[0]:
        raise BadFrameError("bad ICRC", f"packet {length}")
    return packet_in(view[:end], start, grh)


def packet_in(frame: memoryview, start: int, grh: GlobalHeader) -> Packet:
    """Return the packet with its transport header at ``start``, with LIDs and SL 0.

    The invariant CRC is not checked. Raises :class:`BadFrameError` ("bad transport header").
    """
    try:
        packet = parse_transport(frame, start)
    except BadPacketError as error:
        raise BadFrameError("bad transport header", str(error)) from None
    packet.grh = grh
    packet.dlid = packet.slid = packet.sl = 0
    return packet


def read_headers(frame: bytes | bytearray, at: int) -> tuple[int, int, int, GlobalHeader]:
    """Return the packet's offset and length, the CRC of the headers, and their fields.

    Raises :class:`BadFrameError` for a frame that is too short, lengths that contradict each other,
    and a wrong IPv4 checksum. The packet may still be longer than the frame.
    """
    available = len(frame) - at - SMALLEST_BYTES
    if available >= IPV4_BYTES + UDP_BYTES and frame[at] == IPV4_IN_5_WORDS:
        size, read = IPV4_BYTES + UDP_BYTES, _read_ipv4
    elif available >= GRH_BYTES and frame[at - 2 : at] == GRH:
        size, read = GRH_BYTES, _read_grh
    elif available >= IPV6_BYTES + UDP_BYTES:
        size, read = IPV6_BYTES + UDP_BYTES, _read_ipv6
    else:
        raise BadFrameError("bad length", f"frame {len(frame)}")
    start = at + size
    return start, *read(bytes(frame[at : start + BTH_MASKED - 1]))


# Frames of a connection have few different headers, so what they say is kept. The arguments are the
# headers up to the masked byte of the BTH.


@lru_cache(_KEPT_HEADERS)
def _read_ipv4(head: bytes) -> tuple[int, int, GlobalHeader]:
    """Return the packet's length, the CRC of the headers, and their fields, for IPv4.

    Raises BadFrameError for a wrong header checksum, and for different IP and UDP lengths.
    """
    (
        version, tos, total, ident, fragment, ttl, protocol, checksum, addresses, sport, dport, udp,
        _, bth,
    ) = _unpack_ipv4(head)  # fmt: skip
    if int.from_bytes(head[:IPV4_BYTES], "big") % 0xFFFF:
        raise BadFrameError("bad IPv4 checksum", f"{checksum:#06x}")
    if udp != total - IPV4_BYTES:
        raise BadFrameError("bad length", f"IP {total}, UDP {udp}")
    masked = _mask_ipv4(
        ONES, version, 0xFF, total, ident, fragment, 0xFF, protocol, 0xFFFF, addresses, sport,
        dport, udp, 0xFFFF, bth, 0xFF,
    )  # fmt: skip
    sgid, dgid = MAPPED_PREFIX + addresses[:4], MAPPED_PREFIX + addresses[4:]
    header = GlobalHeader(sgid, dgid, tos, 0, ttl, is_ip=True)
    return udp - UDP_BYTES, crc32(masked), header


@lru_cache(_KEPT_HEADERS)
def _read_ipv6(head: bytes) -> tuple[int, int, GlobalHeader]:
    """Return the same for IPv6. Raises BadFrameError for different IP and UDP lengths."""
    first, length, protocol, hops, sgid, dgid, sport, dport, udp, _, bth = _unpack_ipv6(head)
    if udp != length:
        raise BadFrameError("bad length", f"IP {length}, UDP {udp}")
    masked = _mask_ipv6(
        ONES, MASKED_WORD, length, protocol, 0xFF, sgid, dgid, sport, dport, udp, 0xFFFF, bth,
        0xFF,
    )  # fmt: skip
    header = GlobalHeader(sgid, dgid, first >> 20 & 0xFF, first & 0xFFFFF, hops, is_ip=True)
    return udp - UDP_BYTES, crc32(masked), header


@lru_cache(_KEPT_HEADERS)
def _read_grh(head: bytes) -> tuple[int, int, GlobalHeader]:
    """Return the same for RoCE v1."""
    first, length, follows, hops, sgid, dgid, bth = _unpack_grh(head)
    masked = _mask_grh(ONES, MASKED_WORD, length, follows, 0xFF, sgid, dgid, bth, 0xFF)
    header = GlobalHeader(sgid, dgid, first >> 20 & 0xFF, first & 0xFFFFF, hops)
    return length, crc32(masked), header

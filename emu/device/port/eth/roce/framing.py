"""RoCE v2 frames: Ethernet, perhaps a VLAN tag, IPv4 or IPv6, UDP, and a transport packet.

The network addresses are GIDs; an IPv4 address is a GID of the form ``::ffff:a.b.c.d``. The
invariant CRC covers everything from the IP header on except the fields that routers change.

Sources: IBTA annex A17 (headers in A17.3.1, invariant CRC in A17.3.3), IBTA 7.8.1 (the CRC), RFC
791, RFC 8200, RFC 768.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from zlib import crc32

from emu.device.port.eth import headers as eth_headers
from emu.device.port.eth.headers import ETH_CTAG, ETH_IPV4, ETH_IPV6, ETHERNET_BYTES, UDP
from emu.device.port.packet import (
    MAX_BYTES,
    SMALLEST_BYTES,
    BadPacketError,
    GlobalHeader,
    Packet,
    build_transport,
    parse_transport,
)
from layouts.wire.bth import ICRC_BYTES

IPV4_BYTES, IPV6_BYTES, UDP_BYTES = 20, 40, 8
MAPPED_PREFIX = bytes(10) + b"\xff\xff"
"""The first bytes of a GID that is an IPv4 address."""

TAG_BYTES = 4
_IPV4_IN_5_WORDS = 0x45
_DONT_FRAGMENT = 0x4000
_FRAGMENT = 0x3FFF
"""More fragments, and the offset."""
_SIZES = 64
"""Header sets that a :class:`Framer` keeps; a connection's packets have few sizes."""

_IPV4 = Struct(">BBHHHBBH4s4s")
_IPV6 = Struct(">IHBB16s16s")
_UDP = Struct(">HHHH")
_WORDS = Struct(">10H")
_ICRC = Struct("<I")
_read_icrc = _ICRC.unpack_from
_read_ipv4 = Struct(">BBHHHBBH8sHHHH4s").unpack_from
_read_ipv6 = Struct(">IHBB16s16sHHHH4s").unpack_from
_mask_ipv4 = Struct(">8sBBHHHBBH8sHHHH4sB").pack
_mask_ipv6 = Struct(">8sIHBB16s16sHHHH4sB").pack
_BTH_MASKED = 5
"""Bytes of the BTH up to the last masked one: congestion bits and six reserved ones."""
_ONES = b"\xff" * 8
"""An InfiniBand packet would begin with a local route header, all of which is masked."""
_MASKED_LOCAL_HEADER = crc32(_ONES)
_MASKED_WORD = 0x6FFFFFFF
"""IPv6: version, traffic class and flow label."""

_CTAG, _V4, _V6 = (kind.to_bytes(2, "big") for kind in (ETH_CTAG, ETH_IPV4, ETH_IPV6))
ROCE_PORT = eth_headers.ROCE_PORT.to_bytes(2, "big")
ROCE_PORT_AT = 36, 62
"""Between these bytes every RoCE v2 frame has its destination port; few others have these two."""


class BadFrameError(BadPacketError):
    """A frame that is dropped. ``kind`` is fixed text, to count by."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(f"{kind}: {why}")
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers in front of a transport packet."""

    dmac: bytes
    smac: bytes
    sgid: bytes
    dgid: bytes
    tci: int | None = None
    """The VLAN tag's priority and number; None for a frame without a tag."""
    tclass: int = 0
    """Type of service, or traffic class."""
    flow_label: int = 0
    hop_limit: int = 64
    sport: int = 0xC000

    @property
    def is_ipv4(self) -> bool:
        """Whether the addresses are IPv4's; the source address decides."""
        return is_ipv4(self.sgid)

    @property
    def size(self) -> int:
        """Bytes of all the headers."""
        tag = 0 if self.tci is None else TAG_BYTES
        return ETHERNET_BYTES + tag + (IPV4_BYTES if self.is_ipv4 else IPV6_BYTES) + UDP_BYTES


def is_ipv4(gid: bytes) -> bool:
    """Whether a GID is an IPv4 address."""
    return gid.startswith(MAPPED_PREFIX)


def ip_header(headers: Headers, length: int) -> bytes:
    """The IP header in front of a UDP datagram of ``length`` bytes."""
    if headers.is_ipv4:
        fields = (
            _IPV4_IN_5_WORDS, headers.tclass, IPV4_BYTES + length, 0, _DONT_FRAGMENT,
            headers.hop_limit, UDP,
        )  # fmt: skip
        addresses = (headers.sgid[12:], headers.dgid[12:])
        words = _WORDS.unpack(_IPV4.pack(*fields, 0, *addresses))
        return _IPV4.pack(*fields, -sum(words) % 0xFFFF, *addresses)
    first = 6 << 28 | headers.tclass << 20 | headers.flow_label
    return _IPV6.pack(first, length, UDP, headers.hop_limit, headers.sgid, headers.dgid)


class Framer:
    """Makes the frames of packets that share their headers."""

    __slots__ = ("_fronts", "_pkey", "headers")

    def __init__(self, headers: Headers, pkey: int) -> None:
        self.headers = headers
        self._pkey = pkey
        self._fronts: dict[int, tuple[bytes, int]] = {}

    def frame(
        self,
        packet: Packet,
        payload: Sequence[memoryview] | Sequence[bytes] = (),
        length: int = 0,
    ) -> bytes:
        """The whole frame, with ``length`` bytes of ``payload``."""
        size, parts = build_transport(packet, self._pkey, payload, length)
        front, crc = self._fronts.get(size) or self._front(size)
        parts[-1] = parts[-1][ICRC_BYTES:]  # the padding alone
        body = b"".join(parts)
        return b"".join((front, body, _ICRC.pack(_icrc(memoryview(body), crc))))

    def _front(self, size: int) -> tuple[bytes, int]:
        """Everything in front of ``size`` bytes of transport packet, and the CRC up to there."""
        headers = self.headers
        ip = ip_header(headers, UDP_BYTES + size)
        udp = _UDP.pack(headers.sport, eth_headers.ROCE_PORT, UDP_BYTES + size, 0)
        ethertype = _V4 if headers.is_ipv4 else _V6
        if headers.tci is not None:
            ethertype = _CTAG + headers.tci.to_bytes(2, "big") + ethertype
        front = headers.dmac + headers.smac + ethertype + ip + udp
        if len(self._fronts) >= _SIZES:
            self._fronts.clear()
        found = self._fronts[size] = (front, _masked(ip, udp))
        return found


def _masked(ip: bytes, udp: bytes) -> int:
    """The CRC over a masked local route header, IP header and UDP header."""
    if len(ip) == IPV4_BYTES:
        ip = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
    else:
        ip = _MASKED_WORD.to_bytes(4, "big") + ip[4:7] + b"\xff" + ip[8:]
    return crc32(udp[:6] + b"\xff\xff", crc32(ip, _MASKED_LOCAL_HEADER))


def _icrc(body: memoryview, crc: int) -> int:
    """The invariant CRC: BTH with its congestion bits masked, and everything up to the padding."""
    return crc32(body[_BTH_MASKED:], crc32(bytes(body[:4]) + b"\xff", crc))


def network_header(frame: bytes | bytearray) -> int:
    """Where the IP header of a RoCE v2 frame begins; 0 for any other frame.

    A fragment, which has no UDP header, an IPv4 header with options and an IPv6 header with
    extensions are not RoCE's.
    """
    if frame.find(ROCE_PORT, *ROCE_PORT_AT) < 0:
        return 0
    at = ETHERNET_BYTES + TAG_BYTES if frame[12:14] == _CTAG else ETHERNET_BYTES
    kind = frame[at - 2 : at]
    if kind == _V4:
        is_roce = (
            frame[at + 22 : at + 24] == ROCE_PORT
            and frame[at] == _IPV4_IN_5_WORDS
            and frame[at + 9] == UDP
            and not int.from_bytes(frame[at + 6 : at + 8], "big") & _FRAGMENT
        )
    else:
        is_roce = (
            kind == _V6
            and frame[at + 42 : at + 44] == ROCE_PORT
            and frame[at] >> 4 == 6
            and frame[at + 6] == UDP
        )
    return at if is_roce else 0


def addresses(frame: bytes | bytearray, at: int) -> tuple[bytes, bytes]:
    """Source and destination GID of a frame whose IP header begins at ``at``."""
    if frame[at] == _IPV4_IN_5_WORDS:
        return MAPPED_PREFIX + frame[at + 12 : at + 16], MAPPED_PREFIX + frame[at + 16 : at + 20]
    return bytes(frame[at + 8 : at + 24]), bytes(frame[at + 24 : at + 40])


def tag_of(frame: bytes, at: int) -> int | None:
    """The priority and number in the VLAN tag of such a frame; None without a tag."""
    return int.from_bytes(frame[14:16], "big") if at > ETHERNET_BYTES else None


def transport_header(frame: bytes | bytearray, at: int) -> int:
    """Where the base transport header begins in a frame whose IP header begins at ``at``."""
    return at + (IPV4_BYTES if frame[at] == _IPV4_IN_5_WORDS else IPV6_BYTES) + UDP_BYTES


def seal(frame: bytearray, at: int) -> None:
    """Put the right invariant CRC into a frame that :func:`parse` takes but for that."""
    start, length, crc, _ = (
        _parse_ipv4(frame, at) if frame[at] == _IPV4_IN_5_WORDS else _parse_ipv6(frame, at)
    )
    end = start + length - ICRC_BYTES
    _ICRC.pack_into(frame, end, crc32(frame[start + _BTH_MASKED : end], crc))


def parse(frame: bytes | bytearray, at: int) -> Packet:
    """The packet in a frame for which :func:`network_header` has found ``at``.

    Its payload is a view of ``frame``; its ``grh`` has what the IP header says. The length of the
    UDP datagram counts, and what follows it is padding. The UDP checksum is not looked at, because
    the invariant CRC covers more. Raises :class:`BadFrameError`.
    """
    size = len(frame)
    if size < at + IPV4_BYTES + UDP_BYTES + SMALLEST_BYTES:
        raise BadFrameError("bad length", f"frame {size}")
    if frame[at] == _IPV4_IN_5_WORDS:
        start, length, crc, grh = _parse_ipv4(frame, at)
    elif size < at + IPV6_BYTES + UDP_BYTES + SMALLEST_BYTES:
        raise BadFrameError("bad length", f"frame {size}")
    else:
        start, length, crc, grh = _parse_ipv6(frame, at)
    end = start + length
    if end > size or not SMALLEST_BYTES <= length <= MAX_BYTES:
        raise BadFrameError("bad length", f"frame {size}, packet {length}")
    view = memoryview(frame)
    if crc32(view[start + _BTH_MASKED : end - ICRC_BYTES], crc) != _read_icrc(frame, end - 4)[0]:
        raise BadFrameError("bad ICRC", f"packet {length}")
    try:
        packet = parse_transport(view[:end], start)
    except BadPacketError as error:
        raise BadFrameError("bad transport header", str(error)) from None
    packet.grh = grh
    packet.dlid = packet.slid = packet.sl = 0
    return packet


def _parse_ipv4(frame: bytes | bytearray, at: int) -> tuple[int, int, int, GlobalHeader]:
    """Where the transport packet begins, its length, the CRC so far, and what the headers say."""
    (
        version, tos, total, ident, fragment, ttl, protocol, checksum, addresses, sport, dport, udp,
        _, bth,
    ) = _read_ipv4(frame, at)  # fmt: skip
    if int.from_bytes(frame[at : at + IPV4_BYTES], "big") % 0xFFFF:
        raise BadFrameError("bad IPv4 checksum", f"{checksum:#06x}")
    if udp != total - IPV4_BYTES:
        raise BadFrameError("bad length", f"IP {total}, UDP {udp}")
    masked = _mask_ipv4(
        _ONES, version, 0xFF, total, ident, fragment, 0xFF, protocol, 0xFFFF, addresses, sport,
        dport, udp, 0xFFFF, bth, 0xFF,
    )  # fmt: skip
    sgid, dgid = MAPPED_PREFIX + addresses[:4], MAPPED_PREFIX + addresses[4:]
    header = GlobalHeader(sgid, dgid, tos, 0, ttl)
    return at + IPV4_BYTES + UDP_BYTES, udp - UDP_BYTES, crc32(masked), header


def _parse_ipv6(frame: bytes | bytearray, at: int) -> tuple[int, int, int, GlobalHeader]:
    """As :func:`_parse_ipv4`."""
    first, length, protocol, hops, sgid, dgid, sport, dport, udp, _, bth = _read_ipv6(frame, at)
    if udp != length:
        raise BadFrameError("bad length", f"IP {length}, UDP {udp}")
    masked = _mask_ipv6(
        _ONES, _MASKED_WORD, length, protocol, 0xFF, sgid, dgid, sport, dport, udp, 0xFFFF, bth,
        0xFF,
    )  # fmt: skip
    header = GlobalHeader(sgid, dgid, first >> 20 & 0xFF, first & 0xFFFFF, hops)
    return at + IPV6_BYTES + UDP_BYTES, udp - UDP_BYTES, crc32(masked), header

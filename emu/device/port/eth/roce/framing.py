"""RoCE frames: Ethernet, optional VLAN tag, network headers, and a transport packet.

Version 2 has IPv4 or IPv6, and UDP. Version 1 has its own Ethertype and InfiniBand's global route
header. The network addresses are GIDs; an IPv4 address is a GID of the form ``::ffff:a.b.c.d``. The
invariant CRC covers all bytes from the network header on, except fields that routers change.
``reading.py`` parses frames.

Sources: IBTA annex A16 (version 1), annex A17 (headers in A17.3.1, invariant CRC in A17.3.3), IBTA
7.8.1 (the CRC), 8.3 (the global route header), RFC 791, RFC 8200, RFC 768.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final
from zlib import crc32

from emu.device.port.eth import headers as eth_headers
from emu.device.port.eth.headers import ETH_CTAG, ETH_IPV4, ETH_IPV6, ETHERNET_BYTES, UDP
from emu.device.port.packet import (
    EXTENSIONS,
    FrontKey,
    Packet,
    keep_front,
    transport_bytes,
    transport_front,
)
from layouts.enums.roce import RoceVersion
from layouts.wire.bth import ACK_REQUEST, GRH_NEXT_IBA, GRH_VERSION, PAD_MASK

IPV4_BYTES: Final = 20
IPV6_BYTES: Final = 40
UDP_BYTES: Final = 8
GRH_BYTES: Final = IPV6_BYTES
"""A global route header has the layout of an IPv6 header."""
MAPPED_PREFIX: Final = bytes(10) + b"\xff\xff"
"""First bytes of a GID that maps an IPv4 address."""

TAG_BYTES: Final = 4
IPV4_IN_5_WORDS: Final = 0x45
_DONT_FRAGMENT: Final = 0x4000
_PADDING: Final = tuple(map(bytes, range(PAD_MASK + 1)))
"""Padding by its length."""

_IPV4: Final = Struct(">BBHHHBBH4s4s")
_IPV6: Final = Struct(">IHBB16s16s")
_UDP: Final = Struct(">HHHH")
_WORDS: Final = Struct(">10H")
ICRC: Final = Struct("<I")
BTH_MASKED: Final = 5
"""Bytes of the BTH up to the last masked one: congestion bits and six reserved ones."""
ONES: Final = b"\xff" * 8
"""The masked local route header with which an InfiniBand packet would begin."""
_MASKED_LOCAL_HEADER: Final = crc32(ONES)
MASKED_WORD: Final = 0x6FFFFFFF
"""IPv6 and global route header: version, masked traffic class and flow label."""

CTAG, V4, V6, GRH = (
    kind.to_bytes(2, "big") for kind in (ETH_CTAG, ETH_IPV4, ETH_IPV6, eth_headers.ETH_ROCE)
)
"""Ethertypes; the last one is that of RoCE v1."""
_V2: Final = RoceVersion.VERSION_2
ROCE_PORT: Final = eth_headers.ROCE_PORT.to_bytes(2, "big")
ROCE_PORT_AT: Final = 36, 62
"""Range of bytes that contains the destination port of every RoCE v2 frame, and rarely of others.
"""


@dataclass(frozen=True, slots=True)
class RoceHeaders:
    """The headers in front of a transport packet."""

    dmac: bytes
    smac: bytes
    sgid: bytes
    dgid: bytes
    tci: int | None = None
    """The VLAN tag's priority and number; None for a frame without a tag."""
    tclass: int = 0
    """IPv4 type of service, or traffic class."""
    flow_label: int = 0
    hop_limit: int = 64
    sport: int = 0xC000
    """UDP source port."""
    version: int = RoceVersion.VERSION_2

    @property
    def is_ipv4(self) -> bool:
        """Whether there is an IPv4 header; the source address decides."""
        return self.version == _V2 and is_ipv4(self.sgid)

    @property
    def size(self) -> int:
        """Bytes of all the headers."""
        return header_bytes(self.version, self.sgid, has_tag=self.tci is not None)


def header_bytes(version: int, gid: bytes, *, has_tag: bool = False) -> int:
    """Return the bytes in front of a transport packet between GIDs of the kind of ``gid``.

    Ethernet header, tag if any, then a global route header (RoCE v1), or IP and UDP header (RoCE
    v2), IPv4 for a mapped GID.
    """
    size = ETHERNET_BYTES + TAG_BYTES if has_tag else ETHERNET_BYTES
    if version != _V2:
        return size + GRH_BYTES
    return size + (IPV4_BYTES if is_ipv4(gid) else IPV6_BYTES) + UDP_BYTES


def is_ipv4(gid: bytes) -> bool:
    """Return whether a GID maps an IPv4 address."""
    return gid.startswith(MAPPED_PREFIX)


def route_header(headers: RoceHeaders, length: int) -> bytes:
    """Return the network header for ``length`` bytes: a UDP datagram, or a packet (GRH).

    IPv4, with its checksum, for a mapped source GID of RoCE v2; otherwise IPv6, or a global route
    header for RoCE v1.
    """
    if headers.is_ipv4:
        fields = (
            IPV4_IN_5_WORDS, headers.tclass, IPV4_BYTES + length, 0, _DONT_FRAGMENT,
            headers.hop_limit, UDP,
        )  # fmt: skip
        addresses = (headers.sgid[12:], headers.dgid[12:])
        words = _WORDS.unpack(_IPV4.pack(*fields, 0, *addresses))
        return _IPV4.pack(*fields, -sum(words) % 0xFFFF, *addresses)
    first = GRH_VERSION << 28 | headers.tclass << 20 | headers.flow_label
    follows = UDP if headers.version == _V2 else GRH_NEXT_IBA
    return _IPV6.pack(first, length, follows, headers.hop_limit, headers.sgid, headers.dgid)


class Framer:
    """Builds the frames of packets that share their headers."""

    __slots__ = ("_fronts", "_pkey", "headers")

    def __init__(self, headers: RoceHeaders, pkey: int) -> None:
        self.headers = headers
        self._pkey = pkey
        self._fronts: dict[FrontKey, tuple[bytes, int]] = {}
        """Bytes up to the PSN of the frames so far with their CRC, by all that they depend on."""

    def frame(
        self,
        packet: Packet,
        payload: Sequence[memoryview] | Sequence[bytes] = (),
        length: int = 0,
    ) -> bytes:
        """Return the whole frame, with all of ``payload`` and its invariant CRC.

        ``length`` must be the total bytes of ``payload``, which is not checked: padding and the
        lengths in the headers follow from it. The UDP checksum is 0.
        """
        code = packet.op.code
        key = code, packet.qpn, packet.solicited, packet.is_migrated, length
        known = self._fronts.get(key)
        if known is None:
            known = keep_front(self._fronts, key, self._front(packet, length))
        front, crc = known
        psn = packet.psn | ACK_REQUEST if packet.ack_request else packet.psn
        headers = psn.to_bytes(4, "big") + EXTENSIONS[code](packet)
        padding, crc = _PADDING[-length & PAD_MASK], crc32(headers, crc)
        for part in payload:
            crc = crc32(part, crc)
        return b"".join((front, headers, *payload, padding, ICRC.pack(crc32(padding, crc))))

    def _front(self, packet: Packet, length: int) -> tuple[bytes, int]:
        """Return the headers up to the PSN for ``length`` bytes of payload, and their CRC."""
        headers, size = self.headers, transport_bytes(packet.op, length)
        if headers.version == _V2:
            ip = route_header(headers, UDP_BYTES + size)
            udp = _UDP.pack(headers.sport, eth_headers.ROCE_PORT, UDP_BYTES + size, 0)
            ethertype = V4 if headers.is_ipv4 else V6
        else:
            ip, udp, ethertype = route_header(headers, size), b"", GRH
        if headers.tci is not None:
            ethertype = CTAG + headers.tci.to_bytes(2, "big") + ethertype
        transport = transport_front(packet, self._pkey, length)
        front = headers.dmac + headers.smac + ethertype + ip + udp + transport
        return front, crc32(_masked_transport(transport), _masked(ip, udp))


def _masked_transport(front: bytes) -> bytes:
    """Return the front of a base transport header with masked congestion bits."""
    return front[: BTH_MASKED - 1] + b"\xff" + front[BTH_MASKED:]


def _masked(ip: bytes, udp: bytes) -> int:
    """Return the CRC over a masked local route header, network header and UDP header.

    Fields that routers change are masked with ones. An empty ``udp`` (RoCE v1) is left out.
    """
    if len(ip) == IPV4_BYTES:
        ip = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
    else:
        ip = MASKED_WORD.to_bytes(4, "big") + ip[4:7] + b"\xff" + ip[8:]
    crc = crc32(ip, _MASKED_LOCAL_HEADER)
    return crc32(udp[:6] + b"\xff\xff", crc) if udp else crc

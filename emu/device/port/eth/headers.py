"""Parsing of an Ethernet frame: VLAN tags, IPv4 or IPv6, and the transport header.

A frame is parsed as received from the wire, without frame check sequence. Parsing stops at the
first malformed header. After a malformed IP header the frame counts as having no IP packet. After a
malformed or fragmented transport header the frame counts as having no ports. A TIR's hash, a flow
group's fields and the checksums are then those of a packet without them.

Sources: IEEE 802.1Q 9 (tags), RFC 791, RFC 8200 4 (extension headers), RFC 9293, RFC 768.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

from emu.device.objects.eth.parser import PARSER
from layouts.enums.fte import FlowSource

UPLINK: Final = 0xFFFF
"""The number of the uplink vPort, which is the cable of the physical port (MLX5_VPORT_UPLINK)."""

ETHERNET_BYTES: Final = 14
TAG_BYTES: Final = 4
MAX_TAGS: Final = 2
"""Maximum number of tags that a flow group matches; a third TPID counts as the Ethertype."""

MAX_STACKED: Final = 16
"""Maximum number of tags behind those, before an IP packet whose offloads are still to be done."""

MAX_EXTENSIONS: Final = 16
"""Maximum number of IPv6 extension headers; behind more, no transport header is found."""

ETH_IPV4: Final = 0x0800
ETH_CTAG: Final = 0x8100
ETH_IPV6: Final = 0x86DD
ETH_IP: Final = frozenset({ETH_IPV4, ETH_IPV6})
ETH_STAG: Final = 0x88A8
ETH_ROCE: Final = 0x8915
"""RoCE v1: a global route header follows."""

ICMP: Final = 1
TCP: Final = 6
UDP: Final = 17
GRE: Final = 47
ESP: Final = 50
AH: Final = 51
ICMPV6: Final = 58

ROCE_PORT: Final = 4791

REG_A: Final = 0x49
"""The number of metadata register A of a sent packet (METADATA_REG_A; Linux has no such modify
header field). Only software steering tables match it."""

TPIDS: Final = frozenset({ETH_CTAG, ETH_STAG})
"""Ethertypes of VLAN tags."""

_HOP_BY_HOP: Final = 0
_ROUTING: Final = 43
_FRAGMENT: Final = 44
_DESTINATION: Final = 60
_EXTENSIONS: Final = frozenset({_HOP_BY_HOP, _ROUTING, _FRAGMENT, _DESTINATION})
_PORTS: Final = frozenset({TCP, UDP})
_IPV4_BYTES: Final = 20
_IPV6_BYTES: Final = 40
_EXTENSION_BYTES: Final = 8
_L4_BYTES: Final = {TCP: 20, UDP: 8, ICMP: 8, ICMPV6: 8, GRE: 4, ESP: 8, AH: 12}
_IPV4_FRAGMENT: Final = 0x3FFF  # more fragments, and the offset
_IPV6_FRAGMENT: Final = 0xFFF9  # the offset, and more fragments

_u16: Final = Struct(">H").unpack_from
_ipv4: Final = Struct(">BxHxxHxB").unpack_from
_ipv6: Final = Struct(">BxxxHB").unpack_from
_fragment: Final = Struct(">BxH").unpack_from


class FrameError(ValueError):
    """The bytes are no Ethernet frame, or a frame that the operation does not support."""


class Headers:
    """Headers found by :func:`parse`; offsets are in bytes from the frame's start."""

    __slots__ = (
        "end", "ethertype", "fragment", "frame", "l3", "l4", "parser", "protocol", "sqn", "sums",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        frame: bytes,
        ethertype: int,
        l3: int,
        version: int = 0,
        protocol: int = 0,
        l4: int = 0,
        end: int = 0,
        fragment: bool = False,
    ) -> None:
        self.frame = frame
        self.ethertype = ethertype
        """The last Ethertype, after the tags."""
        self.l3 = l3
        """End of the Ethernet header with its tags."""
        self.version = version
        """4 or 6; 0 when there is no well-formed IP header."""
        self.protocol = protocol
        """IP protocol after the extension headers; 0 without an IP header."""
        self.l4 = l4
        """Offset of a complete transport header; 0 without one, as in a fragment."""
        self.end = end
        """End of the IP packet, before the frame's padding; 0 without an IP header."""
        self.fragment = fragment
        """Whether the IP packet is a fragment, first fragments included."""
        self.sqn = 0
        """Number of the sending queue, which only its own device knows; 0: unknown."""
        self.sums: tuple[int, bool, bool] | None = None
        """Known checksum results (``emu.device.port.eth.checksum.Received``), set by the creator of
        the packet; else None."""
        self.parser = PARSER
        """Parser settings of the device that steers the frame."""

    def copy_state(self, other: Headers) -> None:
        """Copy ``sqn`` and ``parser`` from other headers of the same packet."""
        self.sqn, self.parser = other.sqn, other.parser

    @property
    def tags(self) -> int:
        """Number of VLAN tags found, MAX_TAGS at most."""
        return (self.l3 - ETHERNET_BYTES) // TAG_BYTES

    @property
    def addresses(self) -> bytes:
        """Source and destination address, concatenated; needs an IP header."""
        if self.version == 4:
            return self.frame[self.l3 + 12 : self.l3 + 20]
        return self.frame[self.l3 + 8 : self.l3 + 40]

    @property
    def ports(self) -> bytes:
        """Source and destination port of TCP or UDP, concatenated; empty for other protocols."""
        if self.l4 and self.protocol in _PORTS:
            return self.frame[self.l4 : self.l4 + 4]
        return b""


_VPORT_BITS: Final = 16


def source_of(vport: int, owner: int) -> int:
    """Return the source key of a vPort; ``owner`` is the vhca id of its switch's manager."""
    return owner << _VPORT_BITS | vport


class Marked(Headers):
    """A packet that flow table entries have changed, with its metadata registers."""

    __slots__ = ("gvmi", "registers", "source")

    def __init__(self, headers: Headers, registers: Mapping[int, int], source: int = 0) -> None:
        """Create a packet with these headers; the fields are set here, without another call."""
        self.frame = headers.frame
        self.ethertype = headers.ethertype
        self.l3 = headers.l3
        self.version = headers.version
        self.protocol = headers.protocol
        self.l4 = headers.l4
        self.end = headers.end
        self.fragment = headers.fragment
        self.sqn = headers.sqn
        self.parser = headers.parser
        self.sums = None
        self.registers = dict(registers)
        """Registers by number (ModifyField); missing ones are 0."""
        self.source = source
        """Source of a packet in a switch (:func:`source_of`)."""
        self.gvmi: int = headers.gvmi if isinstance(headers, Marked) else 0
        """The vhca id of the source vPort's function, for software steering tables; else 0."""

    @property
    def source_port(self) -> int:
        """The source vPort."""
        return self.source & 0xFFFF

    @property
    def source_owner(self) -> int:
        """The vhca id of the function that manages the source vPort's switch."""
        return self.source >> _VPORT_BITS

    @property
    def flow_source(self) -> FlowSource:
        """Source class of the packet in its switch."""
        return FlowSource.UPLINK if self.source_port == UPLINK else FlowSource.LOCAL_VPORT


def parse(frame: bytes, whole: bool = True) -> Headers:
    """Return the headers of ``frame``, as far as they are well-formed.

    Raises :class:`FrameError` for less than an Ethernet header only. After a malformed IP header
    ``version`` is 0; after a malformed or fragmented transport header ``l4`` is 0. With ``whole``
    false the bytes are only the frame's beginning. Lengths in the IP header are then not checked,
    and ``end`` is the end of the bytes.
    """
    size = len(frame)
    if size < ETHERNET_BYTES:
        raise FrameError("frame ends inside its Ethernet header")
    ethertype, l3 = _u16(frame, 12)[0], ETHERNET_BYTES
    while ethertype in TPIDS:
        if l3 == ETHERNET_BYTES + MAX_TAGS * TAG_BYTES or l3 + TAG_BYTES > size:
            break
        ethertype = _u16(frame, l3 + 2)[0]
        l3 += TAG_BYTES
    if ethertype == ETH_IPV4:
        return _parse_ipv4(frame, l3, size, whole)
    if ethertype == ETH_IPV6:
        return _parse_ipv6(frame, l3, size, whole)
    return Headers(frame, ethertype, l3)


def despite_length(headers: Headers) -> Headers:
    """Return the headers of a packet; of an IP packet longer than its frame, as far as they go."""
    if headers.version or headers.ethertype not in ETH_IP:
        return headers
    packet = parse(headers.frame, whole=False)
    if isinstance(headers, Marked):
        return Marked(packet, headers.registers, headers.source)
    return packet


def behind_tags(headers: Headers, whole: bool = True) -> Headers:
    """Return the headers of the IP packet behind more tags than MAX_TAGS; else ``headers``.

    For offloads that a frame's sender has requested before entries pushed tags: they know where the
    packet begins. ``whole`` as in :func:`parse`.
    """
    if headers.ethertype not in TPIDS:
        return headers
    return parse_tagged(headers.frame, headers.l3, MAX_STACKED, whole) or headers


def parse_super_frame(data: bytes) -> Headers:
    """Return the headers of a super-frame, or of its headers alone, also behind many tags."""
    return behind_tags(parse(data, whole=False), whole=False)


def parse_tagged(frame: bytes, at: int, most: int, whole: bool = True) -> Headers | None:
    """Return the headers of the IP packet behind at most ``most`` VLAN tags; None without one.

    The first Ethertype ends at ``at``, where the packet or the rest of a tag begins. ``whole`` as
    in :func:`parse`.
    """
    for _ in range(most + 1):
        if at > len(frame):
            break
        ethertype: int = _u16(frame, at - 2)[0]
        if ethertype not in TPIDS:
            return parse_ip(frame, at, ethertype, whole)
        at += TAG_BYTES
    return None


def parse_ip(frame: bytes, at: int, ethertype: int, whole: bool = True) -> Headers | None:
    """Return the headers of an IP packet that begins at ``at``; None for another Ethertype.

    ``version`` is 0 for a malformed packet. ``whole`` as in :func:`parse`.
    """
    size = len(frame)
    if ethertype == ETH_IPV4:
        return _parse_ipv4(frame, at, size, whole)
    if ethertype == ETH_IPV6:
        return _parse_ipv6(frame, at, size, whole)
    return None


def _parse_ipv4(frame: bytes, l3: int, size: int, whole: bool) -> Headers:
    """Return the headers of an IPv4 packet at ``l3``; ``version`` is 0 if its header is malformed.

    ``l4`` is 0 for a fragment and for an incomplete transport header.
    """
    if l3 + _IPV4_BYTES > size:
        return Headers(frame, ETH_IPV4, l3)
    version_ihl, length, fragment, protocol = _ipv4(frame, l3)
    l4 = l3 + (version_ihl & 0xF) * 4
    end = l3 + length if whole else size
    if not 0x45 <= version_ihl <= 0x4F or not l4 <= end <= size:
        return Headers(frame, ETH_IPV4, l3)
    if fragment & _IPV4_FRAGMENT:
        return Headers(frame, ETH_IPV4, l3, 4, protocol, 0, end, True)
    if l4 + _L4_BYTES.get(protocol, 0) > end or (
        protocol == TCP and not 20 <= (frame[l4 + 12] >> 4) * 4 <= end - l4
    ):  # as _has_transport
        l4 = 0
    return Headers(frame, ETH_IPV4, l3, 4, protocol, l4, end)


def _parse_ipv6(frame: bytes, l3: int, size: int, whole: bool) -> Headers:
    """Return the headers of an IPv6 packet at ``l3``; ``version`` is 0 if its header is malformed.

    ``l4`` is 0 for a fragment, too many extension headers, and an incomplete transport header.
    """
    l4 = l3 + _IPV6_BYTES
    if l4 > size:
        return Headers(frame, ETH_IPV6, l3)
    version, length, protocol = _ipv6(frame, l3)
    end = l4 + length if whole else size
    if version >> 4 != 6 or end > size:
        return Headers(frame, ETH_IPV6, l3)
    if protocol in _EXTENSIONS:
        protocol, l4, fragment = _extensions(frame, protocol, l4, end)
        if fragment:
            return Headers(frame, ETH_IPV6, l3, 6, protocol, 0, end, True)
    if not l4 or not _has_transport(frame, protocol, l4, end):
        l4 = 0
    return Headers(frame, ETH_IPV6, l3, 6, protocol, l4, end)


def _extensions(frame: bytes, protocol: int, at: int, end: int) -> tuple[int, int, bool]:
    """Return the protocol after the IPv6 extension headers, its offset, and whether a fragment.

    The offset is 0 for a fragment, for more than MAX_EXTENSIONS headers, and for one beyond
    ``end``. AH counts as a protocol, not as an extension header, as in flow tables.
    """
    for _ in range(MAX_EXTENSIONS):
        if protocol not in _EXTENSIONS:
            return protocol, at, False
        if at + _EXTENSION_BYTES > end:
            return protocol, 0, False
        if protocol == _FRAGMENT:
            protocol, offset = _fragment(frame, at)
            if offset & _IPV6_FRAGMENT:
                return protocol, 0, True
            at += _EXTENSION_BYTES
        else:
            protocol, at = frame[at], at + (frame[at + 1] + 1) * 8
    return protocol, 0, False


def _has_transport(frame: bytes, protocol: int, l4: int, end: int) -> bool:
    """Return whether the whole transport header is present, TCP's by its data offset."""
    if l4 + _L4_BYTES.get(protocol, 0) > end:
        return False
    return protocol != TCP or 20 <= (frame[l4 + 12] >> 4) * 4 <= end - l4

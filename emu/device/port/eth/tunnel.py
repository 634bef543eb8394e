"""Tunnels: parsing of the inner packet, and segmentation of tunneled packets.

The adapter finds the inner packet behind UDP by the port: VXLAN's, which the driver lists,
Geneve's, and MPLS's if enabled. The adapter also parses GRE and IP in IP. For other tunnels a send
WQE gives the offsets (software parsing, SWP).

Sources: RFC 7348 (VXLAN), RFC 8926 (Geneve), RFC 7510 (MPLS in UDP), RFC 2784 and 2890 (GRE), RFC
2003 and 4213 (IP in IP); core/en_tx.c: mlx5e_txwqe_build_eseg_csum, mlx5e_tx_get_gso_ihs;
core/en/txrx.h: mlx5e_set_eseg_swp.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from emu.device.objects.eth.parser import Parser
from emu.device.port.eth.checksum import insert
from emu.device.port.eth.headers import (
    ETH_IPV4,
    ETH_IPV6,
    ETHERNET_BYTES,
    GRE,
    MAX_TAGS,
    UDP,
    FrameError,
    Headers,
    parse_ip,
    parse_tagged,
)
from emu.device.port.eth.segment import MAX_IP_BYTES, segment

GENEVE_PORT: Final = 6081
IPIP: Final = 4
IPV6_IN_IP: Final = 41
"""IP protocols: an IPv4 or an IPv6 packet."""

MPLS_PORT: Final = 6635
MAX_LABELS: Final = 5
"""Maximum number of labels in a packet's stack; a longer stack is not parsed."""

_TEB: Final = 0x6558
"""Ethertype: an Ethernet frame (transparent Ethernet bridging)."""
_UDP_BYTES: Final = 8
_VXLAN_BYTES: Final = 8
_GENEVE_BYTES: Final = 8
_BOTTOM_OF_STACK: Final = 1
_IP_VERSIONS: Final = {4: ETH_IPV4, 6: ETH_IPV6}
_GRE_BYTES: Final = 4
_WORD: Final = 4
_GENEVE_WORDS: Final = 0x3F
_GRE_CHECKSUM: Final = 0x80
_GRE_KEY: Final = 0x20
_GRE_SEQUENCE: Final = 0x10
_LENGTH_AT: Final = {4: 2, 6: 4}
_IPV6_BYTES: Final = 40
_IDENTIFIER_AT: Final = 4
_FAKE_MACS: Final = bytes(12)

_u16 = Struct(">H")


def inner_of(headers: Headers, parser: Parser, whole: bool = True) -> Headers | None:
    """Return the headers of the inner packet; offsets count from the frame's start.

    None if the packet is no tunnel that ``parser`` knows, its headers are incomplete, or its
    content is not IP. ``whole`` as in :func:`parse`.
    """
    payload = _payload(headers, parser)
    return None if payload is None else _of_type(headers.frame, *payload, whole)


def inner_frame_at(headers: Headers, parser: Parser) -> int:
    """Return the offset of the inner Ethernet frame; 0 without a tunnel of frames."""
    payload = _payload(headers, parser)
    return payload[0] if payload is not None and payload[1] == _TEB else 0


def inner_packet_at(headers: Headers, parser: Parser) -> int:
    """Return the offset of the inner IP packet; 0 without a tunnel of IP packets."""
    payload = _payload(headers, parser)
    return payload[0] if payload is not None and payload[1] in (ETH_IPV4, ETH_IPV6) else 0


def _payload(headers: Headers, parser: Parser) -> tuple[int, int] | None:
    """Return the offset of the tunnel's payload, and its Ethertype; None without a tunnel.

    The payload itself may be incomplete.
    """
    start, protocol = headers.l4, headers.protocol
    if protocol == UDP and start:
        return _behind_udp(headers.frame, start, parser)
    if protocol == GRE and start:
        return _behind_gre(headers.frame, start)
    if protocol in (IPIP, IPV6_IN_IP) and start:
        return start, ETH_IPV4 if protocol == IPIP else ETH_IPV6
    return None


def _behind_udp(frame: bytes, start: int, parser: Parser) -> tuple[int, int] | None:
    """Return offset and Ethertype of the payload of VXLAN, MPLS or Geneve, by UDP port, or None."""
    (port,) = _u16.unpack_from(frame, start + 2)
    at = start + _UDP_BYTES
    if port in parser.vxlan_ports:
        return at + _VXLAN_BYTES, _TEB
    if parser.mpls_port and port == parser.mpls_port:
        return _behind_labels(frame, at)
    if port != GENEVE_PORT or len(frame) < at + _GENEVE_BYTES:
        return None
    end = at + _GENEVE_BYTES + (frame[at] & _GENEVE_WORDS) * _WORD
    return end, _u16.unpack_from(frame, at + 2)[0]


def _behind_labels(frame: bytes, at: int) -> tuple[int, int] | None:
    """Return offset and type of the payload behind the last label of a stack.

    The payload's first four bits give the type (RFC 4928 3). None if they are no IP version, and
    for a stack of more than MAX_LABELS labels or without an end.
    """
    for label_at in range(at, at + MAX_LABELS * _WORD, _WORD):
        if label_at + _WORD >= len(frame):
            return None
        if frame[label_at + 2] & _BOTTOM_OF_STACK:
            end = label_at + _WORD
            kind = _IP_VERSIONS.get(frame[end] >> 4)
            return None if kind is None else (end, kind)
    return None


def _behind_gre(frame: bytes, start: int) -> tuple[int, int]:
    """Return offset and Ethertype of a GRE payload, behind the optional fields."""
    flags = frame[start]
    optional = (_GRE_CHECKSUM, _GRE_KEY, _GRE_SEQUENCE)
    end = start + _GRE_BYTES + _WORD * sum(bool(flags & bit) for bit in optional)
    return end, _u16.unpack_from(frame, start + 2)[0]


def _of_type(frame: bytes, at: int, kind: int, whole: bool) -> Headers | None:
    """Return the inner IP packet's headers; None for another Ethertype or an incomplete frame."""
    if kind == _TEB:
        return _ethernet(frame, at, whole)
    if kind not in (ETH_IPV4, ETH_IPV6) or at > len(frame):
        return None
    return parse_ip(frame, at, kind, whole)


def _ethernet(frame: bytes, at: int, whole: bool) -> Headers | None:
    """Return the headers of the IP packet in an inner Ethernet frame.

    The packet may be behind MAX_TAGS VLAN tags. None for an incomplete frame and other content.
    """
    return parse_tagged(frame, at + ETHERNET_BYTES, MAX_TAGS, whole)


def insert_both(outer: Headers, inner: Headers, requested: tuple[bool, bool, bool, bool]) -> bytes:
    """Return the frame with the ``requested`` checksums filled in.

    The flags are for outer L3, outer L4, inner L3 and inner L4; a missing header is skipped. The
    outer transport's checksum covers the inner packet, so it is computed last. Replaces
    ``outer.frame``.
    """
    outer_l3, outer_l4, inner_l3, inner_l4 = requested
    outer.frame = insert(inner, inner_l3, inner_l4)
    return insert(outer, outer_l3, outer_l4)


def cut(header: bytes, payload: bytes, mss: int, outer: Headers, inner: Headers) -> list[bytes]:
    """Return the packets of a large send through a tunnel, in order.

    ``header`` is all bytes in front of the payload. Lengths are adjusted in both packets, the outer
    IPv4 identification grows, and all checksums but the outer transport's are computed. UDP tunnels
    mostly have none. Otherwise the driver has set one that is right for all packets (local checksum
    offload). An inner packet with its checksum always has the same sum.

    Raises :class:`FrameError` without an inner or outer IP header, for outer packets longer than IP
    allows, and for input that :func:`segment` refuses.
    """
    if not inner.version or not outer.version:
        raise FrameError("tunneled large send without outer or inner IP header")
    if len(header) - outer.l3 + min(mss, len(payload)) > MAX_IP_BYTES:
        raise FrameError("tunneled large send whose packets are longer than IP allows")
    front = header[: inner.l3]
    kind = _u16.pack(ETH_IPV4 if inner.version == 4 else ETH_IPV6)
    packets = segment(_FAKE_MACS + kind + header[inner.l3 :], payload, mss)
    return [
        _outer(front, outer, number, packet[ETHERNET_BYTES:])
        for number, packet in enumerate(packets)
    ]


def _outer(front: bytes, outer: Headers, number: int, packet: bytes) -> bytes:
    """Return a packet behind its outer headers, with their lengths adjusted.

    The ``number`` of the packet is added to the IPv4 identification; the IPv4 checksum is new.
    """
    frame = bytearray(front + packet)
    length = len(frame) - outer.l3
    at = outer.l3 + _LENGTH_AT[outer.version]
    if outer.version == 4:
        _u16.pack_into(frame, at, length)
        at = outer.l3 + _IDENTIFIER_AT
        (identifier,) = _u16.unpack_from(frame, at)
        _u16.pack_into(frame, at, identifier + number & 0xFFFF)
    else:
        _u16.pack_into(frame, at, length - _IPV6_BYTES)
    if outer.protocol == UDP and outer.l4:
        _u16.pack_into(frame, outer.l4 + 4, len(frame) - outer.l4)
    whole = Headers(
        bytes(frame), outer.ethertype, outer.l3, outer.version, outer.protocol, outer.l4, len(frame)
    )
    return insert(whole, l3=True, l4=False)

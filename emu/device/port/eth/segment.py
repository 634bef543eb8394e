"""Large send: splits TCP or UDP payload into packets with the same headers.

The driver passes the headers once, inline, and the payload. Each packet takes ``mss`` bytes, the
last one the rest. The packets differ in the IP length, the IPv4 identification, the sequence
number, the flags of the first or last packet, and the checksums.

Sources: PRM "Large send offload"; core/en_tx.c (mlx5e_tx_get_gso_ihs, mlx5e_udp_gso_handle_tx_skb);
Linux's own segmentation, net/ipv4/tcp_offload.c: tcp_gso_segment.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from emu.device.port.eth.checksum import CHECKSUM_AT, MODULUS, pseudo_header, total, totals
from emu.device.port.eth.headers import TCP, FrameError, Headers, parse, parse_super_frame

MAX_IP_BYTES: Final = 0xFFFF
MAX_SEGMENTS: Final = 2048
"""Maximum packets of one large send: Linux sends at least 48 bytes of TCP payload in each."""

_CWR: Final = 0x80
_FIN_PSH: Final = 0x09
_IPV6_BYTES: Final = 40
_UDP_BYTES: Final = 8

_UDP_HEADER: Final = Struct(">4sHH").pack
_u16: Final = Struct(">H").unpack_from
_u32: Final = Struct(">I").unpack_from


def segment(header: bytes, payload: bytes, mss: int) -> list[bytes]:
    """Return the packets of one large send, in order, with all their checksums.

    ``header`` is all bytes in front of the payload, from the Ethernet header on, with VLAN tags and
    extension headers if any. Its IP length and its checksums are ignored (Linux leaves the length 0
    in a packet of more than 64 KiB). Raises :class:`FrameError` as :func:`check` does.
    """
    headers = parse_super_frame(header)
    check(headers, payload, mss)
    pieces = [payload[at : at + mss] for at in range(0, len(payload), mss)]
    network = _ipv4 if headers.version == 4 else _ipv6
    transport = _tcp if headers.protocol == TCP else _udp
    fronts, middles = network(headers, pieces), transport(headers, pieces)
    return [front + middle + piece for front, middle, piece in zip(fronts, middles, pieces)]


def unsegmented(header: bytes, payload: bytes, mss: int) -> bytes | None:
    """Return a large send as one packet, with its IP length and without checksums.

    None if the IP length field is too small. Raises :class:`FrameError` as :func:`check` does.
    """
    headers = parse(header, whole=False)
    check(headers, payload, mss)
    length = len(header) - headers.l3 + len(payload)
    if length > MAX_IP_BYTES:
        return None
    at = headers.l3 + 2
    if headers.version == 6:
        at, length = headers.l3 + 4, length - _IPV6_BYTES
    return b"".join((header[:at], length.to_bytes(2, "big"), header[at + 2 :], payload))


def check(headers: Headers, payload: bytes, mss: int) -> None:
    """Raise :class:`FrameError` for input that :func:`segment` refuses.

    Refused: headers that do not end with a TCP or UDP header, an empty payload, ``mss`` of 0.
    Refused also: more than MAX_SEGMENTS packets, and packets longer than IP allows.
    """
    size = len(headers.frame)
    if not headers.l4 or headers.protocol not in CHECKSUM_AT:
        raise FrameError("large send of a packet that is neither TCP nor UDP")
    if headers.l4 + _transport_bytes(headers) != size:
        raise FrameError("inline headers of a large send do not end with the transport header")
    if mss <= 0 or not payload:
        raise FrameError("large send without payload or segment size")
    if len(payload) > mss * MAX_SEGMENTS:
        raise FrameError("large send of too many segments")
    if size - headers.l3 + min(mss, len(payload)) > MAX_IP_BYTES:
        raise FrameError("large send whose segments are longer than IP allows")


def _transport_bytes(headers: Headers) -> int:
    return (headers.frame[headers.l4 + 12] >> 4) * 4 if headers.protocol == TCP else _UDP_BYTES


def _ipv4(headers: Headers, pieces: list[bytes]) -> list[bytes]:
    """Return the headers before each TCP or UDP header: length, identification, checksum.

    The identification grows by 1 with each packet.
    """
    frame, l3, l4 = headers.frame, headers.l3, headers.l4
    fixed = len(frame) - l3
    identifier: int = _u16(frame, l3 + 4)[0]
    start, middle, end = frame[: l3 + 2], frame[l3 + 6 : l3 + 10], frame[l3 + 12 : l4]
    pack = Struct(f">{len(start)}sHH4sH{len(end)}s").pack
    constant = total(frame[l3 : l3 + 2] + middle + end) % MODULUS
    fronts = []
    for piece in pieces:
        length = fixed + len(piece)
        checksum = -(constant + length + identifier) % MODULUS
        fronts.append(pack(start, length, identifier, middle, checksum, end))
        identifier = identifier + 1 & 0xFFFF
    return fronts


def _ipv6(headers: Headers, pieces: list[bytes]) -> list[bytes]:
    """Return the headers before each TCP or UDP header, with the payload length."""
    frame, l3, l4 = headers.frame, headers.l3, headers.l4
    fixed = len(frame) - l3 - _IPV6_BYTES
    start, end = frame[: l3 + 4], frame[l3 + 6 : l4]
    return [start + (fixed + len(piece)).to_bytes(2, "big") + end for piece in pieces]


def _tcp(headers: Headers, pieces: list[bytes]) -> list[bytes]:
    """Return the TCP header of each packet: sequence number, flags and checksum.

    Only the first packet keeps CWR, only the last one FIN and PSH.
    """
    frame, l4 = headers.frame, headers.l4
    fixed, mss = len(frame) - l4, len(pieces[0])
    sequence, flags = _u32(frame, l4 + 4)[0], _u16(frame, l4 + 12)[0]
    edges = {len(pieces) - 1: flags & _FIN_PSH}
    edges[0] = edges.get(0, 0) | flags & _CWR
    flags &= ~(_FIN_PSH | _CWR)
    ports, acknowledgment, window = (
        frame[l4 : l4 + 4],
        frame[l4 + 8 : l4 + 12],
        frame[l4 + 14 : l4 + 16],
    )
    end = frame[l4 + 18 :]  # urgent pointer and options
    pack = Struct(f">4sI4sH2sH{len(end)}s").pack
    constant = total(ports + acknowledgment + window + end) + pseudo_header(headers, fixed)
    constant %= MODULUS
    middles = []
    for index, payload in enumerate(totals(pieces)):
        now = sequence + index * mss & 0xFFFFFFFF
        marks = flags | edges.get(index, 0)
        number = constant + now + marks + len(pieces[index]) + payload
        middles.append(pack(ports, now, acknowledgment, marks, window, -number % MODULUS, end))
    return middles


def _udp(headers: Headers, pieces: list[bytes]) -> list[bytes]:
    """Return the UDP header of each packet: length and checksum, 0xffff instead of 0."""
    ports = headers.ports
    constant = total(ports) + pseudo_header(headers, _UDP_BYTES) + _UDP_BYTES
    middles = []
    for piece, payload in zip(pieces, totals(pieces)):
        checksum = -(constant + 2 * len(piece) + payload) % MODULUS or 0xFFFF
        middles.append(_UDP_HEADER(ports, _UDP_BYTES + len(piece), checksum))
    return middles

"""Coalescing of consecutive TCP segments from passt into super-frames.

passt cuts a stream into MTU-sized frames. A super-frame costs a function two thirds of what its
single frames cost, and the guest receives the same packets.

passt gives every IPv4 packet the identification 0 without "don't fragment". Linux coalesces no such
packets (net/ipv4/af_inet.c: inet_gro_receive), which raises a guest's cost by half. No router
between passt and the guest fragments them, so this module sets the flag, as Linux does.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NamedTuple

from emu.device.port.eth.checksum import MODULUS
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import ETHERNET_BYTES, TCP
from emu.device.port.eth.segment import MAX_IP_BYTES
from emu.device.ports import Buffer
from emu.server.net.eth.framed import LENGTH

_length_at: Final = LENGTH.unpack_from
_KIND_AT: Final = 12
_IPV4_BYTES: Final = 20
_IPV6_BYTES: Final = 40
_NUMBER_AT: Final = ETHERNET_BYTES + 4
_FRAGMENT: Final = slice(ETHERNET_BYTES + 6, ETHERNET_BYTES + 8)
_CHECKSUM: Final = slice(ETHERNET_BYTES + 10, ETHERNET_BYTES + 12)
_UNNUMBERED: Final = bytes(4)
"""Identification 0; "don't fragment" unset; not a fragment."""
_DONT_FRAGMENT: Final = 0x4000
_TCP_BYTES: Final = 20
_TCP_SIZE: Final = _TCP_BYTES << 2
"""Header length in the 13th byte of a header without options."""
_SIZE_AT: Final = 12
_FLAGS_AT: Final = 13
_ACK: Final = 0x10
_ACK_PSH: Final = 0x18
_WORD: Final = 0xFFFFFFFF


class _Network(NamedTuple):
    """Offsets of the fields of an IP header without options, from the frame's start."""

    protocol_at: int
    length_at: int
    not_counted: int
    """Bytes of the frame before those that the length field counts."""
    number: slice
    """Fields that are 0 in an unfragmented packet without identification; empty for IPv6."""
    end: int
    read: Callable[[Buffer, int], tuple[Any, ...]]
    """Reads all headers up to the ports; sequence number; acknowledgment and header length; flags;
    window; urgent pointer."""


def _network(protocol_at: int, length_at: int, not_counted: int, size: int) -> _Network:
    """Return the offsets from the frame's start of an IP header with ``size`` bytes.

    The other arguments count from the IP header's start.
    """
    return _Network(
        ETHERNET_BYTES + protocol_at,
        ETHERNET_BYTES + length_at,
        ETHERNET_BYTES + not_counted,
        slice(_NUMBER_AT, _NUMBER_AT + (len(_UNNUMBERED) if size == _IPV4_BYTES else 0)),
        ETHERNET_BYTES + size,
        Struct(f">{ETHERNET_BYTES + size + 4}sI5sB2s2x2s").unpack_from,
    )


_IPV4: Final = _network(protocol_at=9, length_at=2, not_counted=0, size=_IPV4_BYTES)
_IPV6: Final = _network(protocol_at=6, length_at=4, not_counted=_IPV6_BYTES, size=_IPV6_BYTES)
_NETWORKS: Final = {b"\x08\x00\x45": _IPV4, b"\x86\xdd\x60": _IPV6}
"""Headers by Ethertype, version and length of a header without options."""


def unfragmented(frame: bytes) -> bytes:
    """Return the frame, with "don't fragment" set if TCP over IPv4 has identification 0.

    The IP checksum follows. Any other frame is returned as is, also one whose IPv4 header has
    options.
    """
    if _kind(frame, 0) is not _IPV4 or len(frame) < _IPV4.end:
        return frame
    if frame[_IPV4.protocol_at] != TCP or frame[_IPV4.number] != _UNNUMBERED:
        return frame
    # RFC 1624 section 3: the checksum decreases by the increase of another word.
    checksum = int.from_bytes(frame[_CHECKSUM], "big") - _DONT_FRAGMENT
    changed = bytearray(frame)
    changed[_FRAGMENT] = _DONT_FRAGMENT.to_bytes(2, "big")
    changed[_CHECKSUM] = (checksum % MODULUS).to_bytes(2, "big")
    return bytes(changed)


def super_frame(
    buffer: memoryview, start: int, end: int, limit: int
) -> tuple[Frame, int, int] | None:
    """Return a super-frame of up to ``limit`` frames, its end offset, and the number of frames.

    The first frame is ``buffer[start:end]``; the next ones follow, each behind its length. Return
    None unless at least the next frame has the same length and continues the same TCP stream. Only
    whole TCP packets without options count, and PSH ends the super-frame.
    """
    length, distance = end - start, end - start + LENGTH.size
    ip = _kind(buffer, start)
    if ip is None or not _is_plain(buffer[start:end], ip):
        return None
    front, sequence, acknowledged, flags, window, urgent = ip.read(buffer, start)
    size = ip.end + _TCP_BYTES
    payload = length - size
    limit = min(limit, (MAX_IP_BYTES - size) // payload)
    count, at = 1, start + distance
    while flags == _ACK and count < limit and at + length <= len(buffer):
        if _length_at(buffer, end)[0] != length:
            break
        sequence = sequence + payload & _WORD
        marks = ip.read(buffer, at)
        if marks != (front, sequence, acknowledged, marks[3] & _ACK_PSH | _ACK, window, urgent):
            break
        flags = marks[3]
        count, end, at = count + 1, end + distance, at + distance
    if count == 1:
        return None
    header = bytearray(buffer[start : start + size])
    header[ip.end + _FLAGS_AT] = flags
    if ip is _IPV4:
        header[_FRAGMENT] = _DONT_FRAGMENT.to_bytes(2, "big")
    counted = size + count * payload - ip.not_counted
    header[ip.length_at : ip.length_at + 2] = counted.to_bytes(2, "big")
    pieces = (buffer[one + size : one + length] for one in range(start, end, distance))
    return Frame(b"".join((header, *pieces)), payload, checked=True), end, count


def _kind(buffer: Buffer, start: int) -> _Network | None:
    return _NETWORKS.get(bytes(buffer[start + _KIND_AT : start + _KIND_AT + 3]))


def _is_plain(frame: memoryview, ip: _Network) -> bool:
    """Return whether a frame is a whole TCP packet with payload, without options and padding.

    An IPv4 packet with an identification, "don't fragment" or a fragment offset is not.
    """
    if len(frame) <= ip.end + _TCP_BYTES or frame[ip.protocol_at] != TCP:
        return False
    counted = int.from_bytes(frame[ip.length_at : ip.length_at + 2], "big")
    is_numbered = any(frame[ip.number])
    is_full = counted + ip.not_counted == len(frame)
    return frame[ip.end + _SIZE_AT] == _TCP_SIZE and is_full and not is_numbered

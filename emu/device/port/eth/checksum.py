"""Internet checksums (RFC 1071): for sent frames, received frames and completions.

Sums are kept modulo 65535, where ones-complement addition is plain addition. Because 2**16 is 1
there, the number formed by all bytes is congruent to the sum of its 16-bit words. 0 and 0xffff are
the same sum.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from emu.device.port.eth.headers import ETHERNET_BYTES, TCP, UDP, Headers, behind_tags

MODULUS: Final = 0xFFFF
CHECKSUM_AT: Final = {TCP: 16, UDP: 6}
"""Offset of the checksum in the headers of transports with checksum offload."""

_SHORT: Final = 256
"""Maximum bytes summed as one number; longer data is split, as division is expensive."""

_SMALL_BITS: Final = 4096

_from_bytes: Final = int.from_bytes
_u16: Final = Struct(">H").unpack_from
_put_u16: Final = Struct(">H").pack_into


def total(data: bytes) -> int:
    """Return a number congruent, modulo 65535, to the sum of the big-endian 16-bit words.

    The number may exceed 16 bits; 0 and 0xffff are the same sum. An odd byte at the end is the
    upper byte of a word, as if a zero byte followed.
    """
    size = len(data)
    if size & 1:
        return total(data[:-1]) + (data[-1] << 8)
    if size <= _SHORT:
        return _from_bytes(data, "big")
    one = size >> 2 & ~1
    two, three = one + one, one + one + one
    number = (
        _from_bytes(data[:one], "big")
        + _from_bytes(data[one:two], "big")
        + _from_bytes(data[two:three], "big")
        + _from_bytes(data[three:], "big")
    )
    width = (size - three) * 8 + 16
    while width > _SMALL_BITS:
        width = (width >> 1) + 15 & ~15
        number = (number >> width) + (number & (1 << width) - 1)
    return number


def totals(pieces: list[bytes]) -> list[int]:
    """Return :func:`total` of each piece; all but the last one must have the same size.

    Raises IndexError without pieces.
    """
    size = len(pieces[0])
    if size & 1 or size <= _SHORT or size * 2 > _SMALL_BITS or len(pieces) == 1:
        return [total(piece) for piece in pieces]
    one = size >> 2 & ~1
    two, three = one + one, one + one + one
    numbers = [
        _from_bytes(piece[:one], "big")
        + _from_bytes(piece[one:two], "big")
        + _from_bytes(piece[two:three], "big")
        + _from_bytes(piece[three:], "big")
        for piece in pieces[:-1]
    ]
    numbers.append(total(pieces[-1]))
    return numbers


def pseudo_header(headers: Headers, length: int) -> int:
    """Return the pseudo-header's sum for ``length`` bytes (RFC 9293 3.1, RFC 8200 8.1)."""
    return _from_bytes(headers.addresses, "big") + headers.protocol + length


def insert(headers: Headers, l3: bool, l4: bool) -> bytes:
    """Return the frame with the requested checksums filled in.

    ``l3`` requests the IPv4 header's checksum, ``l4`` TCP's or UDP's over the whole packet; the old
    field contents do not matter. A checksum without its header is skipped, TCP's and UDP's in a
    fragment too (wqe_eth_seg.cs_flags). UDP gets 0xffff instead of 0. The packet may be behind more
    tags than are parsed.
    """
    headers = behind_tags(headers)
    frame = bytearray(headers.frame)
    if l3 and headers.version == 4:
        at, stop = headers.l3 + 10, headers.l3 + _header_bytes(headers)
        _put_u16(frame, at, 0)
        _put_u16(frame, at, -_from_bytes(frame[headers.l3 : stop], "big") % MODULUS)
    if l4 and (stop := _transport_end(headers)):
        at = headers.l4 + CHECKSUM_AT[headers.protocol]
        number = total(headers.frame[headers.l4 : stop]) - _u16(frame, at)[0]
        value = -(number + pseudo_header(headers, stop - headers.l4)) % MODULUS
        if headers.protocol == UDP and not value:
            value = 0xFFFF  # 0 would mean no checksum
        _put_u16(frame, at, value)
    return bytes(frame)


def complete(headers: Headers) -> None:
    """Fill in both checksums of ``headers.frame``, and cache the result of :func:`trusted`.

    Both are replaced, right or wrong before. The cached ``headers.sums`` is set only for an
    untagged IPv4 frame without padding: then no data is summed again.
    """
    headers.frame = frame = insert(headers, l3=True, l4=True)
    stop = _transport_end(headers)
    if headers.version == 4 and stop == len(frame) and headers.l3 == ETHERNET_BYTES:
        number = -pseudo_header(headers, stop - headers.l4) % MODULUS
        headers.sums = _new(Received, (number or MODULUS, True, True))


def adjust(headers: Headers, frame: bytearray) -> None:
    """Update the checksums in ``frame``, a changed frame, incrementally (RFC 1624).

    ``headers`` are those of the old frame, at the same offsets. Only changes of IP header,
    addresses and transport header up to the checksum count. A right checksum stays right and a
    wrong one wrong. Fragments and UDP datagrams without checksum keep their field; tunnels over
    IPv6 may have none, too (RFC 6935).
    """
    old, start = headers.frame, headers.l3
    if headers.version == 4:
        end = start + _header_bytes(headers)
        change = _from_bytes(old[start:end], "big") - _from_bytes(frame[start:end], "big")
        _add_to(frame, start + 10, change)
    if not _transport_end(headers) or _zero(headers):
        return
    addresses = (start + 12, start + 20) if headers.version == 4 else (start + 8, start + 40)
    at = CHECKSUM_AT[headers.protocol]
    ports = headers.l4, headers.l4 + at
    change = sum(
        _from_bytes(old[first:end], "big") - _from_bytes(frame[first:end], "big")
        for first, end in (addresses, ports)
    )
    _add_to(frame, headers.l4 + at, change)
    if headers.protocol == UDP and change % MODULUS and not _u16(frame, headers.l4 + at)[0]:
        _put_u16(frame, headers.l4 + at, 0xFFFF)  # 0 would mean no checksum


def _add_to(frame: bytearray, at: int, change: int) -> None:
    """Add ``change`` to the checksum field at ``at``; keep the field if the sum is unchanged."""
    if change % MODULUS:
        _put_u16(frame, at, (_u16(frame, at)[0] + change) % MODULUS)


class Received(NamedTuple):
    """The checksum results of a receive completion."""

    check_sum: int
    """cqe64.check_sum: the sum, not inverted, of all bytes after the Ethernet header."""
    l3_ok: bool
    """Whether there is an IP header whose checksum, if it has one, is right."""
    l4_ok: bool
    """Whether a whole TCP segment or UDP datagram has the right checksum (IPv4: or none)."""


_new: Final = tuple.__new__
"""Creates a named tuple five times faster than the constructor."""


def verify(headers: Headers) -> Received:
    """Sum up a delivered frame from its Ethernet header's end on, and check its checksums.

    The sum covers a tag left in the frame and padding, as the capability cqe_checksum_full requires
    (core/en_rx.c: mlx5e_handle_csum). ``l4_ok`` is False for a fragment and for other protocols.
    UDP without checksum is right in IPv4 only.
    """
    frame = headers.frame
    stop = _transport_end(headers)
    if not stop:
        sums = _folded(total(frame[ETHERNET_BYTES:])), _header_ok(headers), False
        return _new(Received, sums)
    start = headers.l4
    if stop == len(frame):
        number = total(frame[ETHERNET_BYTES:]) % MODULUS  # divided once, as division is expensive
        transport = number - _from_bytes(frame[ETHERNET_BYTES:start], "big")
    else:
        transport = total(frame[start:stop])
        rest = total(frame[stop:])
        if stop & 1:
            rest <<= 8  # its first byte is the lower one of a word
        number = (_from_bytes(frame[ETHERNET_BYTES:start], "big") + transport + rest) % MODULUS
    l3, version, protocol = headers.l3, headers.version, headers.protocol
    addresses = frame[l3 + 12 : l3 + 20] if version == 4 else frame[l3 + 8 : l3 + 40]
    transport += _from_bytes(addresses, "big") + protocol + stop - start  # as pseudo_header
    right = not transport % MODULUS
    if protocol == UDP and _zero(headers):
        right = version == 4
    # With an IP header not all bytes are zero: their sum is 0xffff, not 0.
    return _new(Received, (number or MODULUS, version == 6 or _header_ok(headers), right))


def trusted(headers: Headers) -> Received:
    """Return :func:`verify`'s result for a frame whose transport checksum is known to be right.

    The segment and its pseudo-header sum up to 0, so the payload is not read, and ``l4_ok`` is
    True. Other frames (fragment, absent checksum, other protocol, padding) are summed up and
    checked.
    """
    frame, start = headers.frame, headers.l4
    stop = _transport_end(headers)
    if not stop or stop != len(frame) or _zero(headers):
        return verify(headers)
    number = _from_bytes(frame[ETHERNET_BYTES:start], "big") - pseudo_header(headers, stop - start)
    return _new(Received, (_folded(number) or MODULUS, _header_ok(headers), True))


def _folded(number: int) -> int:
    """Return the 16-bit sum of bytes that form ``number``, which is 0 only for zero bytes.

    Linux rejects a packet whose sum is 0 instead of 0xffff (net/core/skbuff.c:
    __skb_checksum_complete).
    """
    return number and (number % MODULUS or MODULUS)


def _transport_end(headers: Headers) -> int:
    """Return the end of a whole TCP segment or UDP datagram; 0 without a well-formed one.

    0 for a fragment, another protocol, and a UDP length that does not fit the IP packet.
    """
    if not headers.l4:
        return 0
    if headers.protocol == TCP:
        return headers.end
    if headers.protocol != UDP:
        return 0
    length: int = _u16(headers.frame, headers.l4 + 4)[0]
    return headers.l4 + length if 8 <= length <= headers.end - headers.l4 else 0


def _header_bytes(headers: Headers) -> int:
    return (headers.frame[headers.l3] & 0xF) * 4


def _header_ok(headers: Headers) -> bool:
    """Return whether the IP header is right: IPv6 always, IPv4 by its checksum, none never."""
    if headers.version != 4:
        return headers.version == 6
    frame, at = headers.frame, headers.l3
    return not _from_bytes(frame[at : at + (frame[at] & 0xF) * 4], "big") % MODULUS


def _zero(headers: Headers) -> bool:
    """Return whether the checksum field marks a UDP datagram without checksum."""
    return headers.protocol == UDP and not _u16(headers.frame, headers.l4 + 6)[0]

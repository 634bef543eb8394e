"""Internet checksums (RFC 1071): those sent, those received, those reported in completions.

Sums are kept modulo 65535, where ones-complement addition is plain addition: as 2**16 is 1 there, a
number made of all the bytes is already the sum of its 16-bit words. 0 and 0xffff are the same sum.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from emu.device.port.eth.headers import ETHERNET_BYTES, TCP, UDP, Headers

MODULUS: Final = 0xFFFF
CHECKSUM_AT: Final = {TCP: 16, UDP: 6}
"""Where the checksum is in the headers of the transports that have one to offload."""

_SHORT: Final = 256
"""Up to so many bytes become one number; more are summed in pieces, as division costs most."""

_SMALL_BITS: Final = 4096

_from_bytes: Final = int.from_bytes
_u16: Final = Struct(">H").unpack_from
_put_u16: Final = Struct(">H").pack_into


def total(data: bytes) -> int:
    """A number congruent, modulo 65535, to the sum of the big-endian 16-bit words.

    An odd byte at the end counts as the upper one of a word, as if a zero byte followed.
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
    """:func:`total` of each piece, when all but the last one are of one size."""
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
    """The pseudo-header's sum for ``length`` bytes of transport (RFC 9293 3.1, RFC 8200 8.1)."""
    return _from_bytes(headers.addresses, "big") + headers.protocol + length


def insert(headers: Headers, l3: bool, l4: bool) -> bytes:
    """The frame with the requested checksums filled in.

    ``l3`` is the IPv4 header's, ``l4`` TCP's or UDP's over the whole packet, whatever the field
    contains. A packet without such a header is not changed (wqe_eth_seg.cs_flags).
    """
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
            value = 0xFFFF  # 0 would mean that there is no checksum
        _put_u16(frame, at, value)
    return bytes(frame)


def complete(headers: Headers) -> None:
    """Fill in both checksums of a frame, and remember what :func:`trusted` would find then.

    Parts with the right checksum in them add up to 0, so nothing needs to be summed up again.
    """
    headers.frame = frame = insert(headers, l3=True, l4=True)
    stop = _transport_end(headers)
    if headers.version == 4 and stop == len(frame) and headers.l3 == ETHERNET_BYTES:
        number = -pseudo_header(headers, stop - headers.l4) % MODULUS
        headers.sums = _new(Received, (number or MODULUS, True, True))


def adjust(headers: Headers, frame: bytearray) -> None:
    """Update the checksums of a changed frame by what has changed (RFC 1624).

    ``headers`` are those of the frame before; they are where they were. So a right checksum stays
    right and a wrong one wrong. Fragments have no transport header, and keep what they carry; a
    UDP datagram without a checksum, which tunnels over IPv6 may have, too (RFC 6935), stays so.
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
        _put_u16(frame, headers.l4 + at, 0xFFFF)  # 0 would mean that there is no checksum


def _add_to(frame: bytearray, at: int, change: int) -> None:
    if change % MODULUS:
        _put_u16(frame, at, (_u16(frame, at)[0] + change) % MODULUS)


class Received(NamedTuple):
    """What a receive completion says of a frame's checksums."""

    check_sum: int
    """cqe64.check_sum: the sum, not inverted, of all that follows the Ethernet header."""
    l3_ok: bool
    """There is an IP header and its checksum, if it has one, is right."""
    l4_ok: bool
    """There is a whole TCP segment or UDP datagram with the right checksum (IPv4: or none)."""


_new: Final = tuple.__new__
"""Makes a named tuple in a fifth of the time."""


def verify(headers: Headers) -> Received:
    """Sum up a frame as it is delivered, and check which of its checksums are right.

    The sum covers a tag that is left in the frame and padding, as the capability cqe_checksum_full
    promises (core/en_rx.c: mlx5e_handle_csum).
    """
    frame = headers.frame
    stop = _transport_end(headers)
    if not stop:
        sums = _folded(total(frame[ETHERNET_BYTES:])), _header_ok(headers), False
        return _new(Received, sums)
    start = headers.l4
    if stop == len(frame):
        number = total(frame[ETHERNET_BYTES:]) % MODULUS  # divided once, as that costs most
        transport = number - _from_bytes(frame[ETHERNET_BYTES:start], "big")
    else:
        transport = total(frame[start:stop])
        rest = total(frame[stop:])
        if stop & 1:
            rest <<= 8  # its first byte is the lower one of a word
        number = (_from_bytes(frame[ETHERNET_BYTES:start], "big") + transport + rest) % MODULUS
    l3, version, protocol = headers.l3, headers.version, headers.protocol
    addresses = frame[l3 + 12 : l3 + 20] if version == 4 else frame[l3 + 8 : l3 + 40]
    transport += _from_bytes(addresses, "big") + protocol + stop - start  # pseudo_header
    right = not transport % MODULUS
    if protocol == UDP and _zero(headers):
        right = version == 4
    # The bytes are not all zero, as there is an IP header: their sum is 0xffff, not 0.
    return _new(Received, (number or MODULUS, version == 6 or _header_ok(headers), right))


def trusted(headers: Headers) -> Received:
    """:func:`verify` for a frame whose transport checksum is known to be right.

    Such a segment and its pseudo-header add up to 0, so the payload need not be read. Other frames
    (fragment, absent checksum, other protocol, padding) are summed up all the same.
    """
    frame, start = headers.frame, headers.l4
    stop = _transport_end(headers)
    if not stop or stop != len(frame) or _zero(headers):
        return verify(headers)
    number = _from_bytes(frame[ETHERNET_BYTES:start], "big") - pseudo_header(headers, stop - start)
    return _new(Received, (_folded(number) or MODULUS, _header_ok(headers), True))


def _folded(number: int) -> int:
    """The 16-bit sum of bytes that make ``number``: of bytes other than zero it is never 0.

    Linux finds a packet wrong whose sum is 0 instead of 0xffff (net/core/skbuff.c:
    __skb_checksum_complete).
    """
    return number and (number % MODULUS or MODULUS)


def _transport_end(headers: Headers) -> int:
    """Where a TCP segment or UDP datagram ends; 0 when there is no well-formed one."""
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
    if headers.version != 4:
        return headers.version == 6
    frame, at = headers.frame, headers.l3
    return not _from_bytes(frame[at : at + (frame[at] & 0xF) * 4], "big") % MODULUS


def _zero(headers: Headers) -> bool:
    """Whether the checksum field says that a UDP datagram has none."""
    return headers.protocol == UDP and not _u16(headers.frame, headers.l4 + 6)[0]

"""Explicit congestion notification in IP headers (RFC 3168 section 5)."""

from __future__ import annotations

from struct import Struct
from typing import Final

from emu.device.port.eth.checksum import total
from emu.device.port.eth.headers import FrameError, parse

ECN_MASK: Final = 3
CONGESTION_EXPERIENCED: Final = 3
NOT_CAPABLE: Final = 0

_IPV4_CHECKSUM_AT: Final = 10
_IPV6_ECN_SHIFT: Final = 4
"""The IPv6 traffic class begins in the middle of the first byte."""
_put_u16: Final = Struct(">H").pack_into


def with_mark(data: bytes) -> bytes | None:
    """Return a copy of the frame with "congestion experienced" in its IP header.

    None if the sender lacks ECN, and for a frame without an IP header. A marked frame stays marked.
    The IPv4 checksum is computed anew.
    """
    try:
        headers = parse(data, whole=False)
    except FrameError:
        return None
    if not headers.version:
        return None
    at, shift = headers.l3 + 1, _IPV6_ECN_SHIFT if headers.version == 6 else 0
    if data[at] >> shift & ECN_MASK == NOT_CAPABLE:
        return None
    marked = bytearray(data)
    marked[at] |= CONGESTION_EXPERIENCED << shift
    if headers.version == 4:
        end = headers.l3 + (data[headers.l3] & 0xF) * 4
        check = headers.l3 + _IPV4_CHECKSUM_AT
        marked[check : check + 2] = bytes(2)
        _put_u16(marked, check, 0xFFFF - total(bytes(marked[headers.l3 : end])) % 0xFFFF)
    return bytes(marked)

"""A frame in transit between Ethernet ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from emu.device.port.eth.headers import ETHERNET_BYTES, MAX_TAGS, TAG_BYTES, UPLINK, Headers

MIN_BYTES: Final = 60
"""Length of the shortest frame, without frame check sequence (IEEE 802.3 3.2.8)."""
MAX_BYTES: Final = ETHERNET_BYTES + MAX_TAGS * TAG_BYTES + 0xFFFF
"""Length of the longest frame: the longest IP packet behind its VLAN tags."""


@dataclass(slots=True)
class Frame:
    """A frame, or a TCP or UDP super-frame that stands for several.

    For a peer that does not support ``gso_size`` or ``checked``, the sender first cuts the frame or
    fills in the checksums (``emu.device.port.eth.segment``, ``emu.device.port.eth.checksum``).
    """

    data: bytes
    """Bytes from the destination MAC address on, without frame check sequence, at least 60."""
    gso_size: int = 0
    """If not 0, the TCP or UDP payload is to be cut into frames of this many bytes; the last may be
    shorter. ``data`` then has the headers once, in front of the whole payload. The IP length covers
    the whole payload, or is 0 if 16 bits are too few."""
    checked: bool = False
    """Whether the sender vouches for the IPv4 and transport checksums; the fields may not have been
    computed."""
    filled: bool = False
    """Whether the checksum fields of a ``checked`` frame have been computed."""
    sqn: int = 0
    """Number of the sending queue for its own adapter's switch; 0: unknown. Receivers ignore it."""
    source_port: int = UPLINK
    """Number of the source vPort while the frame is in its own adapter."""
    parsed: Headers | None = None
    """Headers that a switch has parsed from ``data``, which receivers of the same frame may share;
    void if ``parsed.frame`` is not ``data`` itself."""
    registers: Mapping[int, int] | None = None
    """Metadata registers from its own adapter's switch (``emu.device.port.eth.headers.Marked``)."""

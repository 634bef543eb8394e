"""A frame on its way between Ethernet ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from emu.device.port.eth.headers import ETHERNET_BYTES, MAX_TAGS, TAG_BYTES, UPLINK

MIN_BYTES: Final = 60
"""Length of the shortest frame, without frame check sequence (IEEE 802.3 3.2.8)."""
MAX_BYTES: Final = ETHERNET_BYTES + MAX_TAGS * TAG_BYTES + 0xFFFF
"""Length of the longest one: the longest IP packet behind its VLAN tags."""


@dataclass(slots=True)
class Frame:
    """One frame, or a TCP or UDP super-frame that stands for several.

    Whoever hands a frame to a peer that cannot take ``gso_size`` or ``checked`` cuts the frame or
    fills in the checksums first (``emu.device.port.eth.segment``,
    ``emu.device.port.eth.checksum``).
    """

    data: bytes
    """From the destination MAC address on, without frame check sequence, 60 bytes or more."""
    gso_size: int = 0
    """When not 0, the payload of the TCP or UDP packet is to be cut into frames of this many bytes
    each, the last of the rest. ``data`` then has the headers once, in front of the whole payload;
    the IP length covers all of it, or is 0 when that is more than 16 bits can hold."""
    checked: bool = False
    """The sender vouches for the IPv4 header's and the transport's checksum, whatever the fields
    say: they may not have been computed."""
    filled: bool = False
    """What the sender vouches for has been computed; the fields have it."""
    sqn: int = 0
    """The queue that has sent it, as long as it is in its own adapter's switch; 0: not known."""
    source_port: int = UPLINK
    """The vPort that it comes from, as long as it is in its own adapter."""
    registers: Mapping[int, int] | None = None
    """What comes with it from its own adapter's switch (``emu.device.port.eth.headers.Marked``)."""

"""Insertion and removal of VLAN tags, and the padding of short frames.

Sources: IEEE 802.1Q 9.3 (a tag's TPID and TCI), IEEE 802.3 3.2.8 (padding).
"""

from __future__ import annotations

from typing import Final

from emu.device.port.eth.frame import MIN_BYTES
from emu.device.port.eth.headers import ETH_CTAG, ETHERNET_BYTES, TAG_BYTES, FrameError

_MAC_BYTES: Final = 12
_CTAG: Final = ETH_CTAG.to_bytes(2, "big")


def insert_tag(frame: bytes, tci: int, tpid: int = ETH_CTAG) -> bytes:
    """Return the frame with one more tag after its MAC addresses, in front of existing tags.

    Raises FrameError without an Ethernet header.
    """
    if len(frame) < ETHERNET_BYTES:
        raise FrameError("frame ends inside its Ethernet header")
    tag = (tpid << 16 | tci).to_bytes(TAG_BYTES, "big")
    return frame[:_MAC_BYTES] + tag + frame[_MAC_BYTES:]


def strip_tag(frame: bytes) -> tuple[bytes, int] | None:
    """Return the frame without its outer customer tag, and the tag's TCI; None without one.

    A service tag stays (rqc.vsd, vlan strip disable, concerns only 802.1Q). A tag without a
    following Ethertype stays, too.
    """
    if frame[_MAC_BYTES:ETHERNET_BYTES] != _CTAG or len(frame) < ETHERNET_BYTES + TAG_BYTES:
        return None
    tci = int.from_bytes(frame[ETHERNET_BYTES : ETHERNET_BYTES + 2], "big")
    return frame[:_MAC_BYTES] + frame[_MAC_BYTES + TAG_BYTES :], tci


def pad(frame: bytes) -> bytes:
    """Return the frame padded with zeros to the minimum length."""
    return frame if len(frame) >= MIN_BYTES else frame.ljust(MIN_BYTES, b"\0")

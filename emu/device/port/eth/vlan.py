"""Insertion and removal of VLAN tags, and the padding of short frames.

Sources: IEEE 802.1Q 9.3 (a tag's TPID and TCI), IEEE 802.3 3.2.8 (padding).
"""

from __future__ import annotations

from typing import Final

from emu.device.port.eth.headers import ETH_CTAG, ETHERNET_BYTES, TAG_BYTES, FrameError

MIN_FRAME_BYTES: Final = 60
"""The shortest frame on the wire, without the frame check sequence."""

_MAC_BYTES: Final = 12
_CTAG: Final = ETH_CTAG.to_bytes(2, "big")


def insert_tag(frame: bytes, tci: int, tpid: int = ETH_CTAG) -> bytes:
    """The frame with a tag after its MAC addresses. Raises FrameError without Ethernet header."""
    if len(frame) < ETHERNET_BYTES:
        raise FrameError("frame ends inside its Ethernet header")
    tag = (tpid << 16 | tci).to_bytes(TAG_BYTES, "big")
    return frame[:_MAC_BYTES] + tag + frame[_MAC_BYTES:]


def strip_tag(frame: bytes) -> tuple[bytes, int] | None:
    """The frame without its outermost customer tag, and the tag's TCI; None when it has none.

    A service tag stays (rqc.vsd, vlan strip disable, is about 802.1Q alone). So does a tag that no
    Ethertype follows.
    """
    if frame[_MAC_BYTES:ETHERNET_BYTES] != _CTAG or len(frame) < ETHERNET_BYTES + TAG_BYTES:
        return None
    tci = int.from_bytes(frame[ETHERNET_BYTES : ETHERNET_BYTES + 2], "big")
    return frame[:_MAC_BYTES] + frame[_MAC_BYTES + TAG_BYTES :], tci


def pad(frame: bytes) -> bytes:
    """The frame as it is sent: padded with zeros to the minimum length."""
    return frame if len(frame) >= MIN_FRAME_BYTES else frame.ljust(MIN_FRAME_BYTES, b"\0")

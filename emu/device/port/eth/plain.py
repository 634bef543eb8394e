"""Whole frames, for peers that take neither super-frames nor unfinished checksums."""

from __future__ import annotations

from typing import Final

from emu.device.port.eth.checksum import CHECKSUM_AT, insert
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import (
    TCP,
    FrameError,
    Headers,
    behind_tags,
    parse,
    parse_super_frame,
)
from emu.device.port.eth.segment import MAX_SEGMENTS, segment

_UDP_BYTES: Final = 8


def plain(frame: Frame) -> list[bytes]:
    """Return the frames that ``frame`` stands for, with all their checksums.

    One frame unless ``gso_size`` is set; checksums are computed only if missing (``checked``
    without ``filled``). Raises :class:`FrameError` for a super-frame that cannot be cut.
    """
    if frame.gso_size:
        return cut(frame.data, frame.gso_size)
    if frame.checked and not frame.filled:
        return [insert(parse(frame.data), l3=True, l4=True)]
    return [frame.data]


def cut(data: bytes, size: int) -> list[bytes]:
    """Return a super-frame's frames with ``size`` bytes of payload each, and all their checksums.

    Raises :class:`FrameError` as :func:`emu.device.port.eth.segment.segment` does.
    """
    headers = parse(data, whole=False)
    at = header_bytes(headers)
    return segment(data[:at], data[at:], size)


def is_sound(frame: Frame) -> bool:
    """Return whether a super-frame from outside is TCP or UDP and has 1 to MAX_SEGMENTS frames.

    True for any other frame. Raises FrameError for less than an Ethernet header.
    """
    size, data = frame.gso_size, frame.data
    if not size:
        return True
    headers = parse_super_frame(data)
    if not headers.l4 or headers.protocol not in CHECKSUM_AT:
        return False
    return header_bytes(headers) < len(data) <= size * MAX_SEGMENTS


def header_bytes(headers: Headers) -> int:
    """Return the bytes of all super-frame headers. Raises FrameError unless TCP or UDP.

    The packet may be behind more tags than are parsed.
    """
    headers = behind_tags(headers, whole=False)
    if not headers.l4 or headers.protocol not in CHECKSUM_AT:
        raise FrameError("super-frame of a packet that is neither TCP nor UDP")
    return headers.l4 + transport_bytes(headers)


def transport_bytes(headers: Headers) -> int:
    """Return the bytes of the TCP or UDP header."""
    return (headers.frame[headers.l4 + 12] >> 4) * 4 if headers.protocol == TCP else _UDP_BYTES

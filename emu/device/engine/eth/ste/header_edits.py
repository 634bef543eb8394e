"""STE actions that move a packet's headers: insertions and removals.

Between two actions the bytes may be no valid frame. For example, a tunnel's headers have been
removed and the new Ethernet header is not inserted yet.

Source: core/steering/dr_ste_v1.c: dr_ste_v1_header_anchors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from emu.device.engine.eth.steering.match_field import Part
from emu.device.objects.eth.packet_reformat import PacketReformat
from emu.device.port.eth.frame import MAX_BYTES
from emu.device.port.eth.headers import (
    ETHERNET_BYTES,
    TAG_BYTES,
    TPIDS,
    FrameError,
    Headers,
    parse,
)
from emu.device.port.eth.tunnel import inner_frame_at, inner_packet_at

_MACS: Final = 12


class Anchor(IntEnum):
    """Start of a header."""

    START = 0x00
    MAC = 0x01
    VLAN = 0x02
    IP = 0x07
    INNER_MAC = 0x13
    INNER_IP = 0x19


_FIRST: Final = frozenset({Anchor.START, Anchor.MAC})


class Move(NamedTuple):
    """An insertion or a removal."""

    change: Callable[[bytes, Callable[[], Headers]], bytes]
    """Takes the bytes and a function that parses their headers; returns the new bytes."""
    anchor: Anchor
    needs_whole: bool = False
    """Whether lengths and checksums of the packet must be right before the move."""
    is_outermost: bool = False
    """Whether the old outermost Ethernet header still locates everything behind the moved bytes."""
    parts: frozenset[Part] | None = None
    """Key parts that decide whether the move is possible. None if unknown."""


def moved(headers: Headers, edits: Sequence[Move]) -> bytes:
    """Return a packet's bytes after these moves, in order.

    Raises FrameError when a move is impossible, or when the frame exceeds MAX_BYTES.
    """
    frame = headers.frame
    for move in edits:
        before = frame

        def headers_of(frame: bytes = before) -> Headers:
            if frame is headers.frame:
                return headers
            anew = parse(frame, whole=False)
            anew.copy_state(headers)
            return anew

        frame = move.change(before, headers_of)
        if len(frame) > MAX_BYTES:
            raise FrameError(f"frame grows beyond {MAX_BYTES} bytes")
    return frame


def _at(anchor: Anchor, headers_of: Callable[[], Headers]) -> int:
    """Return the offset of a header. Raises FrameError when the packet lacks it.

    START and MAC are 0. VLAN is 12 even for a packet without a tag.
    """
    if anchor in _FIRST:
        return 0
    headers = headers_of()
    if anchor is Anchor.VLAN:
        return _MACS
    if anchor is Anchor.IP:
        at = headers.l3 if headers.version else 0
    elif anchor is Anchor.INNER_MAC:
        at = inner_frame_at(headers, headers.parser)
    else:
        at = inner_packet_at(headers, headers.parser)
        inner = inner_frame_at(headers, headers.parser)
        if inner and len(headers.frame) >= inner + ETHERNET_BYTES:
            at = inner + parse(headers.frame[inner:], whole=False).l3
    if not 0 < at < len(headers.frame):
        raise FrameError(f"packet has no header {anchor.name}")
    return at


def _has(anchor: Anchor) -> frozenset[Part]:
    """Return a key part: whether a packet has a header."""

    def part(headers: Headers) -> bool:
        try:
            return _at(anchor, lambda: headers) >= 0
        except FrameError:
            return False

    return frozenset({part})


_HAS: Final = {anchor: _has(anchor) for anchor in Anchor}


def _stacked(headers: Headers) -> bytes:
    """Return the whole frame of a packet with more tags than are parsed; empty otherwise.

    A pop may bring any of these tags to light.
    """
    return headers.frame if headers.ethertype in TPIDS else b""


_TAGS: Final = frozenset({_stacked})


def insert(anchor: Anchor, offset: int, data: bytes) -> Move:
    """Return an insertion of ``data`` at ``offset`` bytes behind a header's start.

    The move raises FrameError for a packet without the header, or with too few bytes.
    """

    def change(frame: bytes, headers_of: Callable[[], Headers]) -> bytes:
        at = _at(anchor, headers_of) + offset
        if at > len(frame):
            raise FrameError("insertion lies behind the end of the packet")
        return frame[:at] + data + frame[at:]

    if anchor not in _FIRST or offset > _MACS:
        return Move(change, anchor, needs_whole=True)
    is_tag = offset == _MACS and len(data) == TAG_BYTES
    is_tag = is_tag and int.from_bytes(data[:2], "big") in TPIDS
    if is_tag:
        return Move(change, anchor, is_outermost=True, parts=_TAGS)
    return Move(change, anchor, needs_whole=True, parts=frozenset())


def remove(anchor: Anchor, offset: int, size: int) -> Move:
    """Return a removal of ``size`` bytes, from ``offset`` bytes behind a header's start.

    A packet without a VLAN tag is unchanged by a removal of the tag. The move raises FrameError for
    a packet without another header, or with too few bytes.
    """

    def change(frame: bytes, headers_of: Callable[[], Headers]) -> bytes:
        if anchor is Anchor.VLAN and not headers_of().tags:
            return frame
        at = _at(anchor, headers_of) + offset
        if at + size > len(frame):
            raise FrameError("removal reaches behind the end of the packet")
        return frame[:at] + frame[at + size :]

    if anchor is Anchor.VLAN and not offset and size == TAG_BYTES:
        return Move(change, anchor, is_outermost=True, parts=_TAGS)
    return Move(change, anchor)


def cut_to(anchor: Anchor) -> Move:
    """Return a removal of all bytes before a header; FrameError for a packet without the header."""
    return Move(
        lambda frame, headers_of: frame[_at(anchor, headers_of) :], anchor, needs_whole=True,
        parts=_HAS[anchor],
    )  # fmt: skip


def encap(context: PacketReformat) -> Move:
    """Return an insertion of the tunnel headers of a packet reformat context."""
    (wrap,) = context.changes
    return Move(
        lambda frame, headers_of: wrap(headers_of()),
        Anchor.START,
        needs_whole=True,
        parts=frozenset(),
    )

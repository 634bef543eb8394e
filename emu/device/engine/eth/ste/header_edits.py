"""Actions that move a packet's headers: what is put in, and what is taken away.

Between two of them the bytes may be no frame, as where a tunnel's headers have gone and the new
Ethernet header is not there yet.

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
    ETH_CTAG,
    ETH_STAG,
    ETHERNET_BYTES,
    TAG_BYTES,
    FrameError,
    Headers,
    parse,
)
from emu.device.port.eth.tunnel import inner_frame_at, inner_packet_at

_MACS: Final = 12
_TPIDS: Final = frozenset({ETH_CTAG, ETH_STAG})


class Anchor(IntEnum):
    """Where a header begins."""

    START = 0x00
    MAC = 0x01
    VLAN = 0x02
    IP = 0x07
    INNER_MAC = 0x13
    INNER_IP = 0x19


_FIRST: Final = frozenset({Anchor.START, Anchor.MAC})


class Move(NamedTuple):
    """One such action."""

    change: Callable[[bytes, Callable[[], Headers]], bytes]
    """From the bytes, and from what finds their headers."""
    anchor: Anchor
    needs_whole: bool = False
    """Lengths and checksums of the packet have to be right before."""
    is_outermost: bool = False
    """What stands behind it is found by what stood in the outermost Ethernet header."""
    parts: frozenset[Part] | None = None
    """The parts of a packet that decide whether it is possible; None: nobody tells."""


def moved(headers: Headers, moves: Sequence[Move]) -> bytes:
    """A packet's bytes after these. Raises FrameError when one is impossible with it."""
    frame = headers.frame
    for move in moves:
        before = frame

        def headers_of(frame: bytes = before) -> Headers:
            if frame is headers.frame:
                return headers
            anew = parse(frame, whole=False)
            anew.belong_with(headers)
            return anew

        frame = move.change(before, headers_of)
        if len(frame) > MAX_BYTES:
            raise FrameError("frame grows too long")
    return frame


def _at(anchor: Anchor, headers_of: Callable[[], Headers]) -> int:
    """Where a header begins. Raises FrameError when the packet does not have it."""
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
    """Whether a packet has a header, as a part of it."""

    def part(headers: Headers) -> bool:
        try:
            return _at(anchor, lambda: headers) >= 0
        except FrameError:
            return False

    return frozenset({part})


_HAS: Final = {anchor: _has(anchor) for anchor in Anchor}


def _stacked(headers: Headers) -> bytes:
    """All of a packet with more tags than are looked for, any of which may be found later."""
    return headers.frame if headers.ethertype in _TPIDS else b""


_TAGS: Final = frozenset({_stacked})


def insert(anchor: Anchor, offset: int, data: bytes) -> Move:
    """Put bytes in, ``offset`` behind the beginning of a header."""

    def change(frame: bytes, headers_of: Callable[[], Headers]) -> bytes:
        at = _at(anchor, headers_of) + offset
        if at > len(frame):
            raise FrameError("packet is shorter than where something is put in")
        return frame[:at] + data + frame[at:]

    if anchor not in _FIRST or offset > _MACS:
        return Move(change, anchor)
    is_tag = offset == _MACS and len(data) == TAG_BYTES
    is_tag = is_tag and int.from_bytes(data[:2], "big") in _TPIDS
    return Move(change, anchor, is_outermost=is_tag, parts=_TAGS if is_tag else frozenset())


def remove(anchor: Anchor, offset: int, size: int) -> Move:
    """Take bytes away. A packet without a tag has none to take away."""

    def change(frame: bytes, headers_of: Callable[[], Headers]) -> bytes:
        if anchor is Anchor.VLAN and not headers_of().tags:
            return frame
        at = _at(anchor, headers_of) + offset
        if at + size > len(frame):
            raise FrameError("packet is shorter than what is taken away")
        return frame[:at] + frame[at + size :]

    if anchor is Anchor.VLAN and not offset and size == TAG_BYTES:
        return Move(change, anchor, is_outermost=True, parts=_TAGS)
    return Move(change, anchor)


def cut_to(anchor: Anchor) -> Move:
    """Take away all that is in front of a header."""
    return Move(
        lambda frame, headers_of: frame[_at(anchor, headers_of) :], anchor, needs_whole=True,
        parts=_HAS[anchor],
    )  # fmt: skip


def encap(context: PacketReformat) -> Move:
    """Put a packet into a tunnel."""
    (wrap,) = context.changes
    return Move(
        lambda frame, headers_of: wrap(headers_of()),
        Anchor.START,
        needs_whole=True,
        parts=frozenset(),
    )

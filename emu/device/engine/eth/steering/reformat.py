"""Packet reformat contexts, and the removal of a tunnel's headers (the flow action DECAP).

The driver supplies a tunnel's headers. Lengths and the IPv4 header checksum depend on the packet
and are computed here. A UDP source port that the driver has left 0 is computed as well, to
distinguish the inner flows. The UDP checksum is 0.

Sources: PRM "Packet reformat"; core/en/tc_tun.c; core/esw/bridge.c:
mlx5_esw_bridge_vlan_push_create; RFC 7348 5 (the source port).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from struct import Struct
from typing import Final
from zlib import crc32

from emu.device.engine.eth.steering.fields import FIELDS, base
from emu.device.engine.eth.steering.match_field import Part, costs
from emu.device.engine.eth.steering.vlan_tags import third_tag
from emu.device.errors import BadParamError
from emu.device.objects.eth.packet_reformat import BEGINNINGS, MAX_MOVED, PacketReformat
from emu.device.objects.eth.reshape import Reshape
from emu.device.port.eth.checksum import insert
from emu.device.port.eth.headers import (
    ETH_CTAG,
    ETH_IPV4,
    ETH_IPV6,
    ETH_ROCE,
    ETH_STAG,
    ETHERNET_BYTES,
    MAX_TAGS,
    TAG_BYTES,
    UDP,
    FrameError,
    Headers,
    parse,
)
from emu.device.port.eth.tunnel import inner_frame_at, inner_packet_at
from layouts.enums.packet_reformat import ReformatAnchor, ReformatType

_EPHEMERAL: Final = 0xC000
_EPHEMERAL_BITS: Final = 0x3FFF
_IPV6_BYTES: Final = 40
_MACS: Final = 12
_TAG: Final = ETH_CTAG.to_bytes(2, "big") + bytes(2)
_TPIDS: Final = frozenset({ETH_CTAG.to_bytes(2, "big"), ETH_STAG.to_bytes(2, "big")})
_PARSED_BEHIND: Final = frozenset({ETH_IPV4, ETH_IPV6, ETH_ROCE, ETH_CTAG, ETH_STAG})
"""EtherTypes behind which further fields can be matched."""
_MOVED_BYTES: Final = 256
"""Bytes of a packet that decide its matches when its headers have moved by MAX_MOVED bytes."""
_MATCHED_COST: Final = 20
_BEGINNING_COST: Final = 2
_u16 = Struct(">H")

_OUTER_PARTS: Final[frozenset[Part]] = frozenset(
    field.part
    for name, field in FIELDS.items()
    if name.startswith("outer_headers.") and field.part is not None
)
_ALL_PARTS: Final = tuple({field.part: None for field in FIELDS.values() if field.part is not None})


# -- tunnels


def _encap(data: bytes, *, of_packets: bool = False) -> Callable[[Headers], bytes]:
    """Return a change that puts a tunnel's headers, ``data``, before a frame.

    ``of_packets``: before its IP packet alone. Raises BAD_PARAM_ERR when ``data`` are not the
    headers of an IP tunnel. The change raises FrameError for a frame without IP packet, or beyond
    65535 bytes.
    """
    outer = parse(data, whole=False) if len(data) >= ETHERNET_BYTES else None
    if outer is None or not outer.version:
        raise BadParamError(
            "reformat_data are not the headers of an IP tunnel", f"{len(data)} bytes"
        )
    l3, l4, version = outer.l3, outer.l4, outer.version
    is_udp = outer.protocol == UDP and l4 > 0
    has_port = is_udp and data[l4 : l4 + 2] != b"\0\0"

    def change(headers: Headers) -> bytes:
        if of_packets and not headers.version:
            raise FrameError("L2_TO_L3_TUNNEL of a frame without an IP packet")
        frame = bytearray(data + headers.frame[headers.l3 if of_packets else 0 :])
        length = len(frame) - l3
        if length > 0xFFFF:
            raise FrameError("tunneled packet exceeds the 65535 bytes of IP")
        if version == 4:
            _u16.pack_into(frame, l3 + 2, length)
        else:
            _u16.pack_into(frame, l3 + 4, length - _IPV6_BYTES)
        if is_udp:
            if not has_port:
                _u16.pack_into(frame, l4, _entropy(headers))
            _u16.pack_into(frame, l4 + 4, len(frame) - l4)
            _u16.pack_into(frame, l4 + 6, 0)
        whole = Headers(bytes(frame), outer.ethertype, l3, version, outer.protocol, l4, len(frame))
        return insert(whole, l3=True, l4=False)

    return change


def _entropy(headers: Headers) -> int:
    """Return a UDP source port that is the same for all packets of a flow."""
    flow = headers.addresses + headers.ports if headers.version else headers.frame[:12]
    return _EPHEMERAL | crc32(flow) & _EPHEMERAL_BITS


def _inner(headers: Headers) -> bytes:
    """Return the frame in a tunnel; empty when there is none."""
    at = inner_frame_at(headers, headers.parser)
    return headers.frame[at:] if at and len(headers.frame) >= at + ETHERNET_BYTES else b""


def _decapped(headers: Headers) -> bytes:
    """Return the frame in a tunnel. Raises FrameError for a packet without a tunnel."""
    inner = _inner(headers)
    if not inner:
        raise FrameError("decapsulation of a packet without a tunnel")
    return inner


def _of_inner(headers: Headers) -> Hashable:
    """Return the key of the inner packet's matches after decapsulation."""
    frame = _inner(headers)
    return _matched(frame, headers) if frame else None


costs(_MATCHED_COST, _of_inner)


def _matched(frame: bytes, before: Headers) -> Hashable:
    inner = parse(frame, whole=False)
    inner.copy_state(before)
    return base(inner), third_tag(inner), *[part(inner) for part in _ALL_PARTS]


def _to_l2(data: bytes) -> tuple[Callable[[Headers], bytes], Part]:
    """Return the decapsulation of IP packets, and its key part.

    ``data`` is the new Ethernet header. Raises BAD_PARAM_ERR when it is none. The change raises
    FrameError for a packet without a tunnel of IP packets.
    """
    tags, ethertype = _ethernet_header(data)

    def change(headers: Headers) -> bytes:
        at = inner_packet_at(headers, headers.parser)
        if not 0 < at < len(headers.frame):
            raise FrameError("decapsulation of a packet without a tunnel of IP packets")
        return data + headers.frame[at:]

    return change, _behind_header(tags, ethertype if ethertype in _PARSED_BEHIND else 0)


def _ethernet_header(data: bytes) -> tuple[int, int]:
    """Return the number of tags in an Ethernet header, and its EtherType.

    Raises BAD_PARAM_ERR unless ``data`` is exactly one Ethernet header with its tags.
    """
    whole = parse(data, whole=False) if len(data) >= ETHERNET_BYTES else None
    if whole is None or whole.l3 != len(data):
        raise BadParamError("reformat_data are not an Ethernet header", f"{len(data)} bytes")
    return whole.tags, whole.ethertype


@cache
def _behind_header(tags: int, ethertype: int) -> Part:
    """Return the key part of an inner IP packet's matches behind a new Ethernet header.

    All contexts with the same number of tags and an equivalent EtherType share it. Addresses and
    tags are constants of the context.
    """
    ended = bytes(_MACS) + _TAG * tags + ethertype.to_bytes(2, "big")

    def part(headers: Headers) -> Hashable:
        at = inner_packet_at(headers, headers.parser)
        if not 0 < at < len(headers.frame):
            return None
        return _matched(ended + headers.frame[at:], headers)

    return costs(_MATCHED_COST, part)


DECAP: Final = Reshape("end a tunnel", _decapped, frozenset({_of_inner}), needs_whole=True)


# -- any headers


def _checked_offset(anchor: int, offset: int, size: int) -> int:
    """Return ``offset``; raise BAD_PARAM_ERR unless anchor, offset and size are supported.

    The anchor is the packet's start. The offset is even; it and ``size`` are at most MAX_MOVED.
    """
    if anchor != ReformatAnchor.MAC_START:
        raise BadParamError("reformat anchor not supported", f"{anchor:#x}")
    if max(offset, size) > MAX_MOVED or offset % 2:
        raise BadParamError(
            "reformat's offset is odd, or its size or offset is too large",
            f"{size} bytes at {offset}, limit {MAX_MOVED}",
        )  # fmt: skip
    return offset


def _insert(data: bytes, at: int) -> Callable[[Headers], bytes]:
    return lambda headers: headers.frame[:at] + data + headers.frame[at:]


def _remove(at: int, size: int) -> Callable[[Headers], bytes]:
    """Return a change that removes ``size`` bytes; FrameError if the packet is too short."""

    def change(headers: Headers) -> bytes:
        if len(headers.frame) < at + size + 2:
            raise FrameError("removal reaches behind the end of the packet")
        return headers.frame[:at] + headers.frame[at + size :]

    return change


def _behind_a_tag(headers: Headers) -> Hashable:
    """Return the key of the headers of a packet whose first tag is removed."""
    return third_tag(headers) if headers.tags else headers.frame[:_MOVED_BYTES]


def _behind_tags(headers: Headers) -> Hashable:
    """Return the key of the headers of a packet whose first two tags are removed."""
    is_known = headers.tags == MAX_TAGS and not third_tag(headers)
    return b"" if is_known else headers.frame[:_MOVED_BYTES]


def _beginning(headers: Headers) -> Hashable:
    """Return the key of the headers of a packet in which any bytes have moved."""
    return headers.frame[:_MOVED_BYTES]


for _part in (_behind_a_tag, _behind_tags, _beginning):
    costs(_BEGINNING_COST, _part)


def _of_inserted(data: bytes, at: int) -> Part:
    """Return the key part of a packet's matches after ``data`` has been inserted."""
    tpids = {data[tag : tag + 2] for tag in range(0, len(data), TAG_BYTES)}
    is_tags = at == _MACS and len(data) % TAG_BYTES == 0 and tpids <= _TPIDS
    return third_tag if is_tags else _beginning


def _of_removed(at: int, size: int) -> Part:
    """Return the key part of a packet's matches after ``size`` bytes have been removed."""
    parts = {TAG_BYTES: _behind_a_tag, 2 * TAG_BYTES: _behind_tags}
    return parts.get(size, _beginning) if at == _MACS else _beginning


def context_of(
    kind: int, anchor: int, offset: int, size: int, data: bytes, ctx: bytes
) -> PacketReformat:
    """Return the context of reformat_type ``kind``; ``data`` has the ``size`` bytes of data.

    Raises BAD_PARAM_ERR for an unsupported type, anchor or offset, and for data that are not the
    headers which the type needs.
    """
    if kind in BEGINNINGS:
        return PacketReformat(ReformatType(kind), _encap(data), _OUTER_PARTS, ctx)
    if kind == ReformatType.L2_TO_L3_TUNNEL:
        made = _encap(data, of_packets=True)
        return PacketReformat(ReformatType.L2_TO_L3_TUNNEL, made, _OUTER_PARTS, ctx)
    if kind == ReformatType.L3_TUNNEL_TO_L2:
        ended, part = _to_l2(data)
        return PacketReformat(ReformatType.L3_TUNNEL_TO_L2, ended, frozenset({part}), ctx)
    if kind == ReformatType.INSERT_HDR:
        at = _checked_offset(anchor, offset, size)
        part = _of_inserted(data, at)
        # Behind other headers than tags nobody finds the packet whose checksum is unfinished.
        return PacketReformat(
            ReformatType.INSERT_HDR, _insert(data, at), frozenset({part}), ctx,
            needs_whole=part is not third_tag,
        )  # fmt: skip
    if kind == ReformatType.REMOVE_HDR:
        at = _checked_offset(anchor, offset, size)
        parts = frozenset({_of_removed(at, size)})
        return PacketReformat(
            ReformatType.REMOVE_HDR, _remove(at, size), parts, ctx, needs_whole=False
        )
    raise BadParamError("reformat_type not supported", f"{kind:#x}")

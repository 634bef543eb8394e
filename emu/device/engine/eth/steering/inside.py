"""Fields of the packet inside a tunnel, and hashes over them.

A packet without a recognized tunnel lacks these fields.

Source: mlx5_ifc.h: fte_match_param.inner_headers, tirc.rx_hash_field_selector_inner;
core/lib/fs_ttc.c: mlx5_create_inner_ttc_table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Final

from emu.device.engine.eth.steering.match_field import MatchField, Part, Read, costs
from emu.device.port.eth.headers import Headers
from emu.device.port.eth.toeplitz import Hasher
from emu.device.port.eth.tunnel import inner_of

_FOLLOWING: Final = (
    "ethertype", "ip_version", "ip_protocol", "ip_dscp", "ip_ecn", "frag", "l4_type", "ipv4_ihl",
    "ttl_hoplimit", "src_ipv4_src_ipv6", "dst_ipv4_dst_ipv6", "tcp_flags", "tcp_sport",
    "tcp_dport", "udp_sport", "udp_dport",
)  # fmt: skip
"""Fields from the EtherType on: their location does not depend on the bytes in front."""

INNER_COST: Final = 6
"""Cost of an inner field, in outer fields: the inner headers are parsed for each field."""


def _inside(headers: Headers) -> Headers | None:
    return inner_of(headers, headers.parser, whole=False)


def _kind(headers: Headers) -> Hashable:
    """Return the key part of fields without a key part of their own."""
    return (
        headers.ethertype, headers.version, headers.protocol, headers.fragment, bool(headers.l4)
    )  # fmt: skip


def fields(outer: Mapping[str, MatchField]) -> dict[str, MatchField]:
    """Return the same fields of the inner packet, where it has them."""
    return {name: inner_field(outer[name]) for name in _FOLLOWING}


def inner_field(field: MatchField) -> MatchField:
    """Return the same field of the inner packet."""
    return MatchField(_reader(field.read), _part(field.part or _kind))


def _reader(read: Read) -> Read:
    """Return a reader of the field in the inner packet; None without a tunnel."""

    def inner(headers: Headers) -> int | None:
        packet = _inside(headers)
        return None if packet is None else read(packet)

    return costs(INNER_COST, inner)


@cache
def _part(part: Callable[[Headers], Hashable]) -> Part:
    """Return the key part of the inner packet: None for a packet without a tunnel.

    Equal arguments get the same object, so each packet computes the key part once.
    """

    def inner(headers: Headers) -> Hashable:
        packet = _inside(headers)
        return None if packet is None else part(packet)

    return costs(INNER_COST, inner)


class InnerHasher:
    """Hashes the packet inside a tunnel; a packet without a tunnel hashes to 0."""

    def __init__(self, hasher: Hasher) -> None:
        self._hasher = hasher

    def __call__(self, headers: Headers) -> tuple[int, int]:
        """Return hash value and type, with the meaning of :meth:`Hasher.__call__`."""
        packet = _inside(headers)
        return (0, 0) if packet is None else self._hasher(packet)

"""Flow groups that split packets by a hash: each packet maps to one of the group's indices.

The hash covers the fields of a match definer. A missing field counts as 0, so every packet has an
index. Drivers do not depend on the hash function.

Source: mlx5_ifc.h: create_flow_group_in.group_type (HASH_SPLIT); core/lag/port_sel.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from zlib import crc32

from emu.device.engine.eth.steering.fields import FIELDS
from emu.device.engine.eth.steering.inside import inner_field
from emu.device.engine.eth.steering.match_field import MatchField, Part, cost_of
from emu.device.objects.eth.flow.matcher import Key
from emu.device.port.eth.headers import Headers

if TYPE_CHECKING:
    from layouts.steering.flow_match import fte_match_param

_L3_TYPE: Final = {4: 1, 6: 2}
_ADDRESS_BYTES: Final = 16
_number: Final = int.from_bytes


def _port(start: int) -> MatchField:
    """Return the field of a TCP or UDP port."""
    return MatchField(
        lambda headers: _number(headers.ports[start : start + 2], "big"),
        lambda headers: headers.ports,
    )


def _of_frame(name: str) -> MatchField:
    """Return a field of the headers before the network header."""
    return FIELDS[f"outer_headers.{name}"]._replace(
        part=lambda headers: headers.frame[: headers.l3]
    )


_EACH: Final[dict[str, MatchField]] = {
    **{name: _of_frame(name) for name in ("dmac_47_16", "dmac_15_0", "smac_47_16", "smac_15_0")},
    "ethertype": _of_frame("ethertype"),
    "first_vlan_vid": _of_frame("first_vid"),
    "l3_type": MatchField(
        lambda headers: _L3_TYPE.get(headers.version, 0), lambda headers: headers.version
    ),
    "ip_src_addr": FIELDS["outer_headers.src_ipv4_src_ipv6"],
    "ip_dest_addr": FIELDS["outer_headers.dst_ipv4_dst_ipv6"],
    "l4_sport": _port(0),
    "l4_dport": _port(2),
}

DEFINER_FIELDS: Final[dict[str, MatchField]] = {
    **{f"outer_{name}": field for name, field in _EACH.items()},
    **{f"inner_{name}": inner_field(field) for name, field in _EACH.items()},
}
"""Fields that a hash can cover, by their names in the formats of match definers."""


class HashSplit:
    """The criteria of a group that splits by hash; a key is an index in the group."""

    def __init__(self, masks: Mapping[str, int], count: int) -> None:
        """Set up a group of ``count`` indices; ``masks`` are by names of DEFINER_FIELDS."""
        self.masks = dict(masks)
        self.cost = sum(cost_of(DEFINER_FIELDS[name].read) for name in masks)
        self._count = count
        self._readers = tuple((DEFINER_FIELDS[name].read, mask) for name, mask in masks.items())

    @property
    def parts(self) -> frozenset[Part]:
        """Key parts that decide the hash."""
        parts = (DEFINER_FIELDS[name].part for name in self.masks)
        return frozenset(part for part in parts if part is not None)

    def key_of(self, values: Mapping[str, int]) -> Key:
        """Return an empty key: an entry's values do not count."""
        return ()

    def values_of(self, param: fte_match_param) -> dict[str, int]:
        """Return no values: an entry's values do not count."""
        return {}

    def key_at(self, place: int) -> Key:
        """Return the key of the entry at this index in the group, from 0 on."""
        return (place,)

    def read(self, headers: Headers) -> Key | None:
        """Return the key of a packet: the index in the group that its hash selects, from 0 on.

        Never None: a missing field counts as 0.
        """
        values = [((read(headers) or 0) & mask) for read, mask in self._readers]
        octets = b"".join([value.to_bytes(_ADDRESS_BYTES, "big") for value in values])
        return (crc32(octets) % self._count,)

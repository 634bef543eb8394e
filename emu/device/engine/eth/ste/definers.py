"""Lookup types of STEs: each takes 16 bytes from a packet, which are hashed and matched.

Fields of a header that a packet lacks are 0. Bits of fields that are not listed here are 0 as well.

Sources: core/steering/dr_ste_v1.c: dr_ste_v1_build_*; rdma-core's providers/mlx5/dr_ste_v1.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from emu.device.engine.eth.ste.dwords import register_a
from emu.device.engine.eth.ste.match_fields import (
    GRE,
    ICMP_OR_TCP,
    IP,
    L2,
    PARTS,
    ROCE,
    TUNNEL,
    inside,
)
from emu.device.engine.eth.steering.fields import FIELDS, source
from emu.device.engine.eth.steering.match_field import Part, Read, cost_of
from emu.device.objects.eth.flex_parsers import GENEVE_OPTION, MPLS_OVER_UDP
from emu.device.port.eth.headers import Headers, Marked
from layouts.prm import Prm
from layouts.steering import ste_match

DEFINER_BITS: Final = 128
_MAX_SELECTIONS: Final = 256
"""Number of cached selections per lookup type."""


class FieldSelection(NamedTuple):
    """A subset of a lookup type's fields."""

    fields: tuple[tuple[int, int, Read], ...]
    """Shift, mask and reader of each field."""
    parts: frozenset[Part]
    """Key parts that decide the fields, besides ``fields.base``."""
    is_deep: bool
    """Whether fields lie behind the transport header, where the ports decide the location."""
    cost: int
    """Cost of reading, in outer fields, beyond one per field."""

    def value(self, headers: Headers) -> int:
        """Return the fields of a packet as a 128-bit number; the caller masks it."""
        tag = 0
        for shift, mask, read in self.fields:
            value = read(headers)
            if value:
                tag |= (value & mask) << shift
        return tag


class Definer:
    """The fields of one lookup type."""

    __slots__ = ("_chosen", "_fields", "_is_deep")

    def __init__(self, prm: type[Prm], read: Mapping[str, Read], *, is_deep: bool = False) -> None:
        self._fields = tuple(
            (DEFINER_BITS - field.offset - field.width, (1 << field.width) - 1, read[field.name])
            for field in prm.fields
            if field.name in read
        )
        self._is_deep = is_deep
        self._chosen: dict[int, FieldSelection] = {}

    def select(self, need: int) -> FieldSelection:
        """Return the fields that have any of the bits of ``need``, from a bounded cache."""
        chosen = self._chosen.get(need)
        if chosen is None:
            fields = tuple(one for one in self._fields if one[1] << one[0] & need)
            parts = (PARTS.get(read, read) for _, _, read in fields)
            chosen = FieldSelection(
                fields, frozenset(part for part in parts if part is not None), self._is_deep,
                sum(cost_of(read) - 1 for _, _, read in fields),
            )  # fmt: skip
            if len(self._chosen) >= _MAX_SELECTIONS:
                self._chosen.clear()
            self._chosen[need] = chosen
        return chosen

    def value(self, headers: Headers, need: int) -> int:
        """Return a packet's fields with at least the bits of ``need``; the caller masks them."""
        return self.select(need).value(headers)


def _both(outer: int, inner: int, prm: type[Prm], read: Mapping[str, Read]) -> dict[int, Definer]:
    """Return the lookup types of the outer and of the inner packet."""
    return {
        outer: Definer(prm, read),
        inner: Definer(prm, {name: inside(one) for name, one in read.items()}, is_deep=True),
    }


_REGISTERS: Final = {
    f"register_{number}_{half}": FIELDS[f"misc_parameters_2.metadata_reg_c_{2 * number + low}"].read
    for number in range(4)
    for low, half in enumerate("hl")
}


def _gvmi(headers: Headers) -> int:
    return headers.gvmi if isinstance(headers, Marked) else 0


PARTS[_gvmi] = source
_SOURCE: Final[dict[str, Read]] = {
    "source_gvmi": _gvmi,
    "source_qp": FIELDS["misc_parameters.source_sqn"].read,
}
_FLEX: Final[dict[str, Read]] = {
    f"flex_parser_{GENEVE_OPTION}": FIELDS["misc_parameters_3.geneve_tlv_option_0_data"].read,
    f"flex_parser_{MPLS_OVER_UDP}": FIELDS["misc_parameters_2.outer_first_mpls_over_udp"].read,
}
_GENERAL: Final[dict[str, Read]] = {"general_purpose_lookup_field": register_a}

DEFINERS: Final[dict[int, Definer]] = {
    **_both(0x0005, 0x0006, ste_match.ste_eth_l2_src_v1, L2),
    **_both(0x0003, 0x0004, ste_match.ste_eth_l2_dst_v1, L2),
    **_both(0x000B, 0x000C, ste_match.ste_eth_l2_src_dst_v1, L2),
    0x0002: Definer(
        ste_match.ste_eth_l2_tnl_v1,
        {**{name: inside(read) for name, read in L2.items()}, **TUNNEL},
        is_deep=True,
    ),
    **_both(0x0007, 0x0008, ste_match.ste_eth_l3_ipv4_5_tuple_v1, IP),
    **_both(0x000D, 0x000F, ste_match.ste_eth_l3_ipv4_misc_v1, IP),
    **_both(0x0009, 0x000A, ste_match.ste_eth_l4_v1, IP),
    **_both(0x0107, 0x0108, ste_match.ste_eth_l3_ipv6_dst, IP),
    **_both(0x0109, 0x010A, ste_match.ste_eth_l3_ipv6_src, IP),
    **_both(0x0113, 0x0114, ste_match.ste_eth_l4_misc_v1, ICMP_OR_TCP),
    0x0103: Definer(ste_match.ste_ib_l4, ROCE, is_deep=True),
    0x0104: Definer(ste_match.ste_src_gvmi_qp_v1, _SOURCE),
    0x010D: Definer(ste_match.ste_gre_v1, GRE, is_deep=True),
    0x000E: Definer(ste_match.ste_tunnel_header, TUNNEL, is_deep=True),
    0x010E: Definer(ste_match.ste_general_purpose, _GENERAL),
    0x0111: Definer(ste_match.ste_flex_parser_0, _FLEX, is_deep=True),
    0x010F: Definer(ste_match.ste_register_0, _REGISTERS),
    0x0110: Definer(ste_match.ste_register_1, _REGISTERS),
}
"""Definers by lookup type: the STE format in the upper byte, the definer index in the lower one."""

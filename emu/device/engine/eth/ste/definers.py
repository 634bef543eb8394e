"""What an entry's lookup type takes from a packet: 16 bytes, by which it is hashed and matched.

A field of a header that a packet does not have is 0, as are the bits of fields that are not here.

Sources: core/steering/dr_ste_v1.c: dr_ste_v1_build_*; rdma-core's providers/mlx5/dr_ste_v1.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emu.device.engine.eth.ste.dwords import REG_A
from emu.device.engine.eth.ste.parts import GRE, ICMP_OR_TCP, IP, L2, ROCE, TUNNEL, inside
from emu.device.engine.eth.steering.fields import FIELDS
from emu.device.engine.eth.steering.match_field import Read
from emu.device.port.eth.headers import Headers, Marked
from layouts.eth_enums import ModifyField
from layouts.prm import Prm
from layouts.steering import ste_match

DEFINER_BITS: Final = 128
_MOST_CHOSEN: Final = 256
"""Selections of one lookup type's fields that are kept."""


class Definer:
    """The fields of a lookup type."""

    __slots__ = ("_chosen", "_fields")

    def __init__(self, prm: Prm, read: Mapping[str, Read]) -> None:
        self._fields = tuple(
            (DEFINER_BITS - field.offset - field.width, (1 << field.width) - 1, read[field.name])
            for field in prm.fields
            if field.name in read
        )
        self._chosen: dict[int, tuple[tuple[int, int, Read], ...]] = {}

    def value(self, headers: Headers, need: int) -> int:
        """Of a packet, at least the bits of ``need``; whoever compares masks it."""
        chosen = self._chosen.get(need)
        if chosen is None:
            chosen = tuple(one for one in self._fields if one[1] << one[0] & need)
            if len(self._chosen) >= _MOST_CHOSEN:
                self._chosen.clear()
            self._chosen[need] = chosen
        found = 0
        for shift, mask, read in chosen:
            value = read(headers)
            if value:
                found |= (value & mask) << shift
        return found


def _both(outer: int, inner: int, prm: Prm, read: Mapping[str, Read]) -> dict[int, Definer]:
    """The lookup types of a packet and of the one in it."""
    return {
        outer: Definer(prm, read),
        inner: Definer(prm, {name: inside(one) for name, one in read.items()}),
    }


def _register(number: int) -> Read:
    def read(headers: Headers) -> int:
        return headers.registers.get(number, 0) if isinstance(headers, Marked) else 0

    return read


_C0: Final = ModifyField.METADATA_REG_C_0
_REGISTERS: Final = {
    f"register_{number}_{half}": _register(_C0 + 2 * number + low)
    for number in range(4)
    for low, half in enumerate("hl")
}
_SOURCE: Final[dict[str, Read]] = {
    "source_gvmi": lambda headers: headers.gvmi if isinstance(headers, Marked) else 0,
    "source_qp": FIELDS["misc_parameters.source_sqn"].read,
}
_GENERAL: Final = {"general_purpose_lookup_field": _register(REG_A)}

DEFINERS: Final[dict[int, Definer]] = {
    **_both(0x0005, 0x0006, ste_match.ste_eth_l2_src_v1, L2),
    **_both(0x0003, 0x0004, ste_match.ste_eth_l2_dst_v1, L2),
    **_both(0x000B, 0x000C, ste_match.ste_eth_l2_src_dst_v1, L2),
    0x0002: Definer(
        ste_match.ste_eth_l2_tnl_v1,
        {**{name: inside(read) for name, read in L2.items()}, **TUNNEL},
    ),
    **_both(0x0007, 0x0008, ste_match.ste_eth_l3_ipv4_5_tuple_v1, IP),
    **_both(0x000D, 0x000F, ste_match.ste_eth_l3_ipv4_misc_v1, IP),
    **_both(0x0009, 0x000A, ste_match.ste_eth_l4_v1, IP),
    **_both(0x0107, 0x0108, ste_match.ste_eth_l3_ipv6_dst, IP),
    **_both(0x0109, 0x010A, ste_match.ste_eth_l3_ipv6_src, IP),
    **_both(0x0113, 0x0114, ste_match.ste_eth_l4_misc_v1, ICMP_OR_TCP),
    0x0103: Definer(ste_match.ste_ib_l4, ROCE),
    0x0104: Definer(ste_match.ste_src_gvmi_qp_v1, _SOURCE),
    0x010D: Definer(ste_match.ste_gre_v1, GRE),
    0x000E: Definer(ste_match.ste_tunnel_header, TUNNEL),
    0x010E: Definer(ste_match.ste_general_purpose, _GENERAL),
    0x010F: Definer(ste_match.ste_register_0, _REGISTERS),
    0x0110: Definer(ste_match.ste_register_1, _REGISTERS),
}
"""By lookup type: the entry's format in the upper byte, the definer's index in the lower one."""

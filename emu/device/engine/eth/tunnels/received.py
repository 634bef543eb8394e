"""CQEs about the packet inside a tunnel: its header types, and whether both packets are valid.

A TIR requests them (tirc.tunneled_offload_en). check_sum still covers the whole packet.

Source: PRM "Completion queue entry"; core/en_rx.c: csum_unnecessary_inner; device.h:
cqe_is_tunneled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.tunnels import header_kind
from emu.device.port.eth.checksum import verify
from emu.device.port.eth.headers import GRE, TCP, UDP, Headers
from emu.device.port.eth.tunnel import IPIP, IPV6_IN_IP, inner_of
from layouts.enums.cqe import CqeChecked, CqeHeader
from layouts.rings.eth_cqe import HDR_TYPE_AT, HDS_IP_EXT_AT

if TYPE_CHECKING:
    from emu.device.objects.eth.parser import Parser

TUNNEL_PROTOCOLS: Final = frozenset({UDP, GRE, IPIP, IPV6_IN_IP})
"""IP protocols that may carry another packet."""

_WITH_CHECKSUM: Final = frozenset({TCP, UDP})
_IS_TUNNELLED: Final = 1 << 0
_OUTER_IPV6: Final = 1 << 1
"""Bits of tls_outer_l3_tunneled, the first byte."""
_L2: Final = int(CqeChecked.L2)
_L3: Final = int(CqeChecked.L3)
_L4: Final = int(CqeChecked.L4)
_STRIPPED: Final = int(CqeHeader.VLAN_STRIPPED)


def about_inner(parser: Parser, outer: Headers, l3_ok: bool, l4_ok: bool, entry: bytes) -> bytes:
    """Return a packet's CQE, changed to describe the inner packet; unchanged without a tunnel.

    A checksum counts as right when both packets' checksums are right, where they have one.
    """
    inner = inner_of(outer, parser)
    if inner is None:
        return entry
    _, inner_l3, inner_l4 = verify(inner)
    checked = _L2
    if l3_ok and inner_l3:
        checked |= _L3
    if inner_l4 and (l4_ok or outer.protocol not in _WITH_CHECKSUM):
        checked |= _L4
    first = _IS_TUNNELLED | (_OUTER_IPV6 if outer.version == 6 else 0)
    kind = entry[HDR_TYPE_AT] & _STRIPPED | header_kind.kind_of(inner)
    return b"".join(
        (
            bytes((first,)), entry[1:HDS_IP_EXT_AT], bytes((checked, kind)),
            entry[HDR_TYPE_AT + 1 :],
        )
    )  # fmt: skip

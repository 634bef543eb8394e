"""Header types of a received packet, for its CQE.

Source: cqe64.l4_l3_hdr_type; DPDK's mlx5_rxtx.c: mlx5_set_ptype_table.
"""

from __future__ import annotations

from typing import Final

from emu.device.port.eth.headers import TCP, UDP, Headers
from layouts.enums.cqe import CqeHeader

_L3_TYPE: Final = {0: 0, 4: int(CqeHeader.IPV4), 6: int(CqeHeader.IPV6)}
_FRAGMENT: Final = int(CqeHeader.FRAGMENT)
_UDP: Final = int(CqeHeader.UDP)
_TCP_NO_ACK: Final = int(CqeHeader.TCP_NO_ACK)
_TCP_ACK_NO_DATA: Final = int(CqeHeader.TCP_ACK_NO_DATA)
_TCP_ACK_AND_DATA: Final = int(CqeHeader.TCP_ACK_AND_DATA)
_TCP_OFFSET_AT: Final = 12
_TCP_FLAGS_AT: Final = 13
_ACK: Final = 1 << 4


def kind_of(headers: Headers) -> int:
    """Return cqe64.l4_l3_hdr_type of these headers, without the VLAN bit."""
    l3_type = _L3_TYPE[headers.version]
    at = headers.l4
    if not at:
        return l3_type | _FRAGMENT if headers.fragment else l3_type
    if headers.protocol == UDP:
        return l3_type | _UDP
    if headers.protocol != TCP:
        return l3_type
    data = headers.frame
    if not data[at + _TCP_FLAGS_AT] & _ACK:
        return l3_type | _TCP_NO_ACK
    payload_at = at + (data[at + _TCP_OFFSET_AT] >> 4) * 4
    return l3_type | (_TCP_ACK_AND_DATA if headers.end > payload_at else _TCP_ACK_NO_DATA)

"""Encapsulation (packet_reformat_context_in), and tunnels."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ReformatType(IntEnum):
    """Supported values of packet_reformat_context_in.reformat_type (MLX5_REFORMAT_TYPE_*)."""

    L2_TO_VXLAN = 0x0
    L2_TO_NVGRE = 0x1
    L2_TO_L2_TUNNEL = 0x2
    L3_TUNNEL_TO_L2 = 0x3
    L2_TO_L3_TUNNEL = 0x4
    INSERT_HDR = 0xF
    REMOVE_HDR = 0x10


class ReformatAnchor(IntEnum):
    """Origins of reformat_param_1: packet_reformat_context_in.reformat_param_0.

    Source: MLX5_REFORMAT_CONTEXT_ANCHOR_*.
    """

    MAC_START = 0x1


VXLAN_PORTS: Final = frozenset({4789})
"""UDP ports of VXLAN before a driver adds any (IANA_VXLAN_UDP_PORT)."""

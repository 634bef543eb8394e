"""RoCE: addresses and congestion control."""

from __future__ import annotations

from enum import IntEnum


class RoceVersion(IntEnum):
    """Values of roce_addr_layout.roce_version; roce_cap.roce_version has a bit for each."""

    VERSION_1 = 0
    """Packets with a global route header, under an Ethertype of its own."""
    VERSION_2 = 2
    """Packets with IP and UDP headers."""


class RoceL3Type(IntEnum):
    """Values of roce_addr_layout.roce_l3_type (MLX5_ROCE_L3_TYPE_*)."""

    IPV4 = 0
    IPV6 = 1


class CongProtocol(IntEnum):
    """Owners of congestion parameters in a command (hw/cong.c: mlx5_ib_cong_node_type)."""

    R_ROCE_ECN_RP = 1
    """Reaction point: the sender that obeys notifications."""
    R_ROCE_ECN_NP = 2
    """Notification point: the receiver that sends them."""

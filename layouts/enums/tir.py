"""Receive interfaces (tirc) and their hashes."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class DispType(IntEnum):
    """Destinations of a TIR: one RQ, or those of an RQT (MLX5_TIRC_DISP_TYPE_*)."""

    DIRECT = 0x0
    INDIRECT = 0x1


class RxHashFn(IntEnum):
    """Hash functions of an indirect TIR (MLX5_RX_HASH_FN_*)."""

    NONE = 0x0
    INVERTED_XOR8 = 0x1
    TOEPLITZ = 0x2


class L3ProtType(IntEnum):
    """Values of rx_hash_field_select.l3_prot_type (MLX5_L3_PROT_TYPE_*)."""

    IPV4 = 0
    IPV6 = 1


class L4ProtType(IntEnum):
    """Values of rx_hash_field_select.l4_prot_type (MLX5_L4_PROT_TYPE_*)."""

    TCP = 0
    UDP = 1


class HashField(IntFlag):
    """Bits of rx_hash_field_select.selected_fields (MLX5_HASH_FIELD_SEL_*)."""

    SRC_IP = 1 << 0
    DST_IP = 1 << 1
    L4_SPORT = 1 << 2
    L4_DPORT = 1 << 3
    IPSEC_SPI = 1 << 4


class PacketMerge(IntFlag):
    """Bits of tirc.packet_merge_mask (MLX5_TIRC_PACKET_MERGE_MASK_*)."""

    IPV4_LRO = 1 << 0
    IPV6_LRO = 1 << 1


class SelfLbBlock(IntFlag):
    """Bits of tirc.self_lb_block (MLX5_TIRC_SELF_LB_BLOCK_*), whose names contradict their use.

    The driver sets a bit when packets of the TIR's own transport domain may loop back to it
    (core/en_common.c: mlx5e_refresh_tirs for the loopback test; ib/qp.c:
    MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_*).
    """

    BLOCK_UNICAST = 0x1
    BLOCK_MULTICAST = 0x2

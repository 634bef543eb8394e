"""Completions (cqe64)."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class CqeOpcode(IntEnum):
    """Kinds of CQE (MLX5_CQE_*), bits 7:4 of op_own."""

    REQ = 0x0
    RESP_WR_IMM = 0x1
    RESP_SEND = 0x2
    RESP_SEND_IMM = 0x3
    RESP_SEND_INV = 0x4
    RESIZE_CQ = 0x5
    NO_PACKET = 0x6
    SIG_ERR = 0xC
    REQ_ERR = 0xD
    RESP_ERR = 0xE
    INVALID = 0xF


class CqeSyndrome(IntEnum):
    """Causes of a failed WQE (MLX5_CQE_SYNDROME_*)."""

    LOCAL_LENGTH_ERR = 0x01
    LOCAL_QP_OP_ERR = 0x02
    LOCAL_PROT_ERR = 0x04
    WR_FLUSH_ERR = 0x05
    MW_BIND_ERR = 0x06
    BAD_RESP_ERR = 0x10
    LOCAL_ACCESS_ERR = 0x11
    REMOTE_INVAL_REQ_ERR = 0x12
    REMOTE_ACCESS_ERR = 0x13
    REMOTE_OP_ERR = 0x14
    TRANSPORT_RETRY_EXC_ERR = 0x15
    RNR_RETRY_EXC_ERR = 0x16
    REMOTE_ABORTED_ERR = 0x22


class CqeFormat(IntEnum):
    """Formats in bits 3:2 of op_own (device.h: MLX5_COMPRESSED and its neighbours)."""

    NO_INLINE_DATA = 0
    INLINE_DATA32_SEG = 1
    INLINE_DATA64_SEG = 2
    COMPRESSED = 3


class MiniCqeFormat(IntEnum):
    """Contents of a compressed completion for each packet (mini_cqe_res_format).

    The last one is mini_cqe_res_format_ext 1. Source: DPDK's mlx5_prm.h: MLX5_CQE_RESP_FORMAT_*.
    """

    HASH = 0
    CSUM = 1
    FTAG_STRIDX = 2
    CSUM_STRIDX = 3
    L34H_STRIDX = 4


class CqeChecked(IntFlag):
    """Headers of a received packet that are correct: cqe64.hds_ip_ext (CQE_*_OK)."""

    L2 = 1 << 0
    L3 = 1 << 1
    L4 = 1 << 2


class CqeHeader(IntFlag):
    """Headers of a received packet: cqe64.l4_l3_hdr_type (CQE_L3_HDR_TYPE_*, _L4_).

    Bit 0: a VLAN tag was stripped. Bits 3:2: the network header. Bits 6:4: the transport header.
    Bit 7: the packet is a fragment, whose transport header does not count (DPDK: ``ip_frag``).
    """

    VLAN_STRIPPED = 1 << 0
    IPV6 = 1 << 2
    IPV4 = 2 << 2
    TCP_NO_ACK = 1 << 4
    UDP = 2 << 4
    TCP_ACK_NO_DATA = 3 << 4
    TCP_ACK_AND_DATA = 4 << 4
    FRAGMENT = 1 << 7


class CqeHashType(IntFlag):
    """Fields of the hash: cqe64.rss_hash_type (CQE_RSS_HTYPE_IP bits 3:2, _L4 bits 7:6)."""

    IPV4 = 1 << 2
    IPV6 = 2 << 2
    L4_TCP = 1 << 6
    L4_UDP = 2 << 6
    L4_IPSEC = 3 << 6


class CqeRoceL3(IntEnum):
    """Values in bits 25:24 of cqe64.flags_rqpn (MLX5_CQE_ROCE_L3_HEADER_TYPE_*)."""

    GRH = 0x0
    IPV6 = 0x1
    IPV4 = 0x2

"""Capabilities: their groups, and values of their fields."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class CapType(IntEnum):
    """Capability groups (MLX5_CAP_*), bits 15:1 of QUERY_HCA_CAP's op_mod."""

    GENERAL = 0x00
    ETHERNET_OFFLOADS = 0x01
    ODP = 0x02
    ATOMIC = 0x03
    ROCE = 0x04
    IPOIB_OFFLOADS = 0x05
    IPOIB_ENHANCED_OFFLOADS = 0x06
    FLOW_TABLE = 0x07
    ESWITCH_FLOW_TABLE = 0x08
    ESWITCH = 0x09
    VECTOR_CALC = 0x0B
    QOS = 0x0C
    DEBUG = 0x0D
    DEV_MEM = 0x0F
    TLS = 0x11
    VDPA_EMULATION = 0x13
    DEV_EVENT = 0x14
    IPSEC = 0x15
    CRYPTO = 0x1A
    DEV_SHAMPO = 0x1D
    MACSEC = 0x1F
    GENERAL_2 = 0x20
    PORT_SELECTION = 0x25
    ADV_VIRTUALIZATION = 0x26


class CapMode(IntEnum):
    """Values of a group that QUERY_HCA_CAP returns (HCA_CAP_OPMOD_GET_*)."""

    MAX = 0
    CUR = 1


class PortType(IntEnum):
    """Link layer of the port, cmd_hca_cap.port_type (MLX5_CAP_PORT_TYPE_*)."""

    IB = 0
    ETH = 1


class InlineModeCap(IntEnum):
    """Values of per_protocol_networking_offload_caps.wqe_inline_mode (MLX5_CAP_INLINE_MODE_*)."""

    L2 = 0
    VPORT_CONTEXT = 1
    NOT_REQUIRED = 2


class FlexProtocol(IntFlag):
    """Optional protocols of the parser: flex_parser_protocols of cmd_hca_cap.

    Source: MLX5_FLEX_PROTO_*.
    """

    GENEVE = 1 << 3
    CW_MPLS_UDP = 1 << 5
    ICMP = 1 << 8
    ICMPV6 = 1 << 9
    GENEVE_TLV_OPTION_0 = 1 << 10


class UctxCap(IntFlag):
    """Rights of a user context: uctx.cap, cmd_hca_cap.uctx_cap (MLX5_UCTX_CAP_*)."""

    RAW_TX = 1 << 0

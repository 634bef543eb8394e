"""Header rewriting: set_action_in and similar structures."""

from __future__ import annotations

from enum import IntEnum


class ModifyAction(IntEnum):
    """Values of action_type in set_action_in and similar structures (MLX5_ACTION_TYPE_*)."""

    SET = 1
    ADD = 2
    COPY = 3


class ModifyField(IntEnum):
    """Fields that a modify header context can change (MLX5_ACTION_IN_FIELD_*)."""

    OUT_SMAC_47_16 = 0x1
    OUT_SMAC_15_0 = 0x2
    OUT_ETHERTYPE = 0x3
    OUT_DMAC_47_16 = 0x4
    OUT_DMAC_15_0 = 0x5
    OUT_IP_DSCP = 0x6
    OUT_TCP_FLAGS = 0x7
    OUT_TCP_SPORT = 0x8
    OUT_TCP_DPORT = 0x9
    OUT_IP_TTL = 0xA
    OUT_UDP_SPORT = 0xB
    OUT_UDP_DPORT = 0xC
    OUT_SIPV6_127_96 = 0xD
    OUT_SIPV6_95_64 = 0xE
    OUT_SIPV6_63_32 = 0xF
    OUT_SIPV6_31_0 = 0x10
    OUT_DIPV6_127_96 = 0x11
    OUT_DIPV6_95_64 = 0x12
    OUT_DIPV6_63_32 = 0x13
    OUT_DIPV6_31_0 = 0x14
    OUT_SIPV4 = 0x15
    OUT_DIPV4 = 0x16
    OUT_FIRST_VID = 0x17
    OUT_IPV6_HOPLIMIT = 0x47
    METADATA_REG_B = 0x50
    METADATA_REG_C_0 = 0x51
    METADATA_REG_C_1 = 0x52
    METADATA_REG_C_2 = 0x53
    METADATA_REG_C_3 = 0x54
    METADATA_REG_C_4 = 0x55
    METADATA_REG_C_5 = 0x56
    METADATA_REG_C_6 = 0x57
    METADATA_REG_C_7 = 0x58

"""Flow table entries (flow_context)."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class FlowAction(IntFlag):
    """Bits of flow_context.action (MLX5_FLOW_CONTEXT_ACTION_*)."""

    ALLOW = 0x1
    DROP = 0x2
    FWD_DEST = 0x4
    COUNT = 0x8
    PACKET_REFORMAT = 0x10
    DECAP = 0x20
    MOD_HDR = 0x40
    VLAN_POP = 0x80
    VLAN_PUSH = 0x100
    VLAN_POP_2 = 0x400
    VLAN_PUSH_2 = 0x800
    CRYPTO_DECRYPT = 0x1000
    CRYPTO_ENCRYPT = 0x2000
    EXECUTE_ASO = 0x4000


class FlowDestination(IntEnum):
    """Values of dest_format_struct.destination_type.

    Source: mlx5_ifc.h: MLX5_IFC_FLOW_DESTINATION_TYPE_*.
    """

    VPORT = 0x0
    FLOW_TABLE = 0x1
    TIR = 0x2
    FLOW_SAMPLER = 0x6
    UPLINK = 0x8
    TABLE_TYPE = 0xA


class FlowSource(IntEnum):
    """Sources of the packets that a switch's entry matches: flow_context.flow_source.

    Source: MLX5_FLOW_CONTEXT_FLOW_SOURCE_*.
    """

    ANY = 0
    UPLINK = 1
    LOCAL_VPORT = 2


class SetFte(IntFlag):
    """Fields that a change of an entry selects: set_fte_in.modify_enable_mask (MLX5_SET_FTE_*)."""

    ACTION = 1 << 0
    FLOW_TAG = 1 << 1
    DESTINATION_LIST = 1 << 2
    FLOW_COUNTERS = 1 << 3
    IPSEC_OBJ_ID = 1 << 4

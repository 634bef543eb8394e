"""Flow tables and groups."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class FlowTableType(IntEnum):
    """Types of flow tables (fs_core.h: fs_flow_table_type, FS_FT_*)."""

    NIC_RX = 0x0
    NIC_TX = 0x1
    ESW_EGRESS_ACL = 0x2
    ESW_INGRESS_ACL = 0x3
    FDB = 0x4
    SNIFFER_RX = 0x5
    SNIFFER_TX = 0x6
    RDMA_RX = 0x7
    RDMA_TX = 0x8
    PORT_SEL = 0x9


class TableMissAction(IntEnum):
    """Actions on a packet that no entry matches (MLX5_FLOW_TABLE_MISS_ACTION_*)."""

    DEF = 0
    FWD = 1
    SWITCH_DOMAIN = 2


class ModifyFlowTable(IntFlag):
    """Bits of modify_flow_table_in.modify_field_select (MLX5_MODIFY_FLOW_TABLE_*)."""

    MISS_TABLE_ID = 1 << 0
    LAG_NEXT_TABLE_ID = 1 << 15


class FlowGroupType(IntEnum):
    """Values of create_flow_group_in.group_type (MLX5_CREATE_FLOW_GROUP_IN_GROUP_TYPE_*)."""

    TCAM_SUBTABLE = 0
    HASH_SPLIT = 1


class MatchCriteria(IntFlag):
    """Sections of fte_match_param that a group uses (MLX5_MATCH_*): match_criteria_enable."""

    OUTER_HEADERS = 1 << 0
    MISC_PARAMETERS = 1 << 1
    INNER_HEADERS = 1 << 2
    MISC_PARAMETERS_2 = 1 << 3
    MISC_PARAMETERS_3 = 1 << 4
    MISC_PARAMETERS_4 = 1 << 5
    MISC_PARAMETERS_5 = 1 << 6

"""Virtual ports, and the InfiniBand port that they show."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class VportPolicy(IntEnum):
    """vport_state_policy of an InfiniBand vPort (MLX5_POLICY_*)."""

    DOWN = 0
    UP = 1
    FOLLOW = 2


class HcaVportField(IntFlag):
    """field_select of MODIFY_HCA_VPORT_CONTEXT (MLX5_HCA_VPORT_SEL_*)."""

    PORT_GUID = 1 << 0
    NODE_GUID = 1 << 1
    STATE_POLICY = 1 << 2


class VportStateOpMod(IntEnum):
    """Ports of QUERY_VPORT_STATE and MODIFY_VPORT_STATE (MLX5_VPORT_STATE_OP_MOD_*)."""

    VNIC_VPORT = 0x0
    ESW_VPORT = 0x1
    UPLINK = 0x2


class VportAdminState(IntEnum):
    """Administrative states of a virtual port (MLX5_VPORT_ADMIN_STATE_*)."""

    DOWN = 0x0
    UP = 0x1
    AUTO = 0x2


class NvprtListType(IntEnum):
    """Kinds of list in nic_vport_context (MLX5_NVPRT_LIST_TYPE_*)."""

    UC = 0x0
    MC = 0x1
    VLAN = 0x2


class InlineMode(IntEnum):
    """Headers that a send WQE must carry inline (MLX5_INLINE_MODE_*)."""

    NONE = 0
    L2 = 1
    IP = 2
    TCP_UDP = 3


class FdbToVport(IntFlag):
    """Registers that a vPort receives with its packets: fdb_to_vport_reg_c_id.

    Source: MLX5_FDB_TO_VPORT_*.
    """

    REG_C_0 = 1 << 0
    REG_C_1 = 1 << 1


class PortState(IntEnum):
    """Logical state of an InfiniBand port (IBTA PortInfo.PortState)."""

    NOP = 0
    DOWN = 1
    INIT = 2
    ARMED = 3
    ACTIVE = 4


class PhysState(IntEnum):
    """Physical state of an InfiniBand port (IBTA PortInfo.PortPhysicalState)."""

    SLEEP = 1
    POLLING = 2
    DISABLED = 3
    TRAINING = 4
    LINK_UP = 5
    LINK_ERROR_RECOVERY = 6


class CapMask1(IntFlag):
    """PortInfo.CapabilityMask bits that the stack reads or sets (IBTA 14.2.5.6; ib_mad.h)."""

    SM = 1 << 1
    TRAP_SUP = 1 << 3
    AUTO_MIGR_SUP = 1 << 5
    SYS_IMAGE_GUID_SUP = 1 << 11
    CM_SUP = 1 << 16
    SNMP_TUNNEL_SUP = 1 << 17
    DEVICE_MGMT_SUP = 1 << 19
    VENDOR_CLASS_SUP = 1 << 20
    CAP_MASK_NOTICE_SUP = 1 << 22
    CLIENT_REG_SUP = 1 << 25
    OTHER_LOCAL_CHANGES_SUP = 1 << 26

"""Named numbers of the Ethernet port: queues, steering, port, completions.

Names are the driver's without their prefix, like those of :mod:`layouts.enums`. Source: mlx5_ifc.h,
device.h, port.h, fs.h, qp.h, vport.h and driver.h of Linux 6.12.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

VXLAN_PORTS: Final = frozenset({4789})
"""UDP ports of VXLAN before a driver adds any (IANA_VXLAN_UDP_PORT)."""


class WqType(IntEnum):
    """Memory layouts of a work queue (MLX5_WQ_TYPE_*), the field wq_type of a wq."""

    LINKED_LIST = 0x0
    CYCLIC = 0x1
    LINKED_LIST_STRIDING_RQ = 0x2
    CYCLIC_STRIDING_RQ = 0x3


class RqState(IntEnum):
    """States of a receive queue (MLX5_RQC_STATE_*)."""

    RST = 0x0
    RDY = 0x1
    ERR = 0x3


class SqState(IntEnum):
    """States of a send queue (MLX5_SQC_STATE_*)."""

    RST = 0x0
    RDY = 0x1
    ERR = 0x3


class MemRqType(IntEnum):
    """Owners of a receive queue's memory (MLX5_RQC_MEM_RQ_TYPE_MEMORY_RQ_*)."""

    INLINE = 0x0
    RMP = 0x1


class ModifyRq(IntFlag):
    """Fields that MODIFY_RQ changes beside the state (MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_*)."""

    VSD = 1 << 1
    SCATTER_FCS = 1 << 2
    RQ_COUNTER_SET_ID = 1 << 3


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


class UctxCap(IntFlag):
    """Rights of a user context: uctx.cap, cmd_hca_cap.uctx_cap (MLX5_UCTX_CAP_*)."""

    RAW_TX = 1 << 0


class PacketMerge(IntFlag):
    """Bits of tirc.packet_merge_mask (MLX5_TIRC_PACKET_MERGE_MASK_*)."""

    IPV4_LRO = 1 << 0
    IPV6_LRO = 1 << 1


class ShampoAlignment(IntEnum):
    """Values of rqc.shampo_no_match_alignment_granularity."""

    BYTE = 0
    STRIDE = 1
    PAGE = 2


class ShampoMatch(IntEnum):
    """Criteria for merging packets' data: rqc.shampo_match_criteria_type."""

    NO_MATCH = 0
    EXTENDED = 1
    FIVE_TUPLE = 2


class SelfLbBlock(IntFlag):
    """Bits of tirc.self_lb_block (MLX5_TIRC_SELF_LB_BLOCK_*), whose names contradict their use.

    The driver sets a bit when packets of the TIR's own transport domain may loop back to it
    (core/en_common.c: mlx5e_refresh_tirs for the loopback test; ib/qp.c:
    MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_*).
    """

    BLOCK_UNICAST = 0x1
    BLOCK_MULTICAST = 0x2


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


class MatchCriteria(IntFlag):
    """Sections of fte_match_param that a group uses (MLX5_MATCH_*): match_criteria_enable."""

    OUTER_HEADERS = 1 << 0
    MISC_PARAMETERS = 1 << 1
    INNER_HEADERS = 1 << 2
    MISC_PARAMETERS_2 = 1 << 3
    MISC_PARAMETERS_3 = 1 << 4
    MISC_PARAMETERS_4 = 1 << 5
    MISC_PARAMETERS_5 = 1 << 6


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


class MeterColor(IntEnum):
    """Colors that a flow meter gives to packets (MLX5_FLOW_METER_COLOR_*)."""

    RED = 0
    YELLOW = 1
    GREEN = 2
    UNDEFINED = 3


class MeterMode(IntEnum):
    """Units that a meter counts: flow_meter_parameters.meter_mode."""

    BYTES_IP_LENGTH = 0
    BYTES_CALC_WITH_L2 = 1
    BYTES_CALC_WITH_L2_IPG = 2
    NUM_PACKETS = 3


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


class FlowGroupType(IntEnum):
    """Values of create_flow_group_in.group_type (MLX5_CREATE_FLOW_GROUP_IN_GROUP_TYPE_*)."""

    TCAM_SUBTABLE = 0
    HASH_SPLIT = 1


class SetFte(IntFlag):
    """Fields that a change of an entry selects: set_fte_in.modify_enable_mask (MLX5_SET_FTE_*)."""

    ACTION = 1 << 0
    FLOW_TAG = 1 << 1
    DESTINATION_LIST = 1 << 2
    FLOW_COUNTERS = 1 << 3
    IPSEC_OBJ_ID = 1 << 4


class InlineMode(IntEnum):
    """Headers that a send WQE must carry inline (MLX5_INLINE_MODE_*)."""

    NONE = 0
    L2 = 1
    IP = 2
    TCP_UDP = 3


class InlineModeCap(IntEnum):
    """Values of per_protocol_networking_offload_caps.wqe_inline_mode (MLX5_CAP_INLINE_MODE_*)."""

    L2 = 0
    VPORT_CONTEXT = 1
    NOT_REQUIRED = 2


class NvprtListType(IntEnum):
    """Kinds of list in nic_vport_context (MLX5_NVPRT_LIST_TYPE_*)."""

    UC = 0x0
    MC = 0x1
    VLAN = 0x2


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


class VhcaState(IntEnum):
    """States of a sub-function (MLX5_VHCA_STATE_*)."""

    INVALID = 0x0
    ALLOCATED = 0x1
    ACTIVE = 0x2
    IN_USE = 0x3
    TEARDOWN_REQUEST = 0x4


class FlexProtocol(IntFlag):
    """Optional protocols of the parser: flex_parser_protocols of cmd_hca_cap.

    Source: MLX5_FLEX_PROTO_*.
    """

    GENEVE = 1 << 3
    CW_MPLS_UDP = 1 << 5
    ICMP = 1 << 8
    ICMPV6 = 1 << 9
    GENEVE_TLV_OPTION_0 = 1 << 10


class FdbToVport(IntFlag):
    """Registers that a vPort receives with its packets: fdb_to_vport_reg_c_id.

    Source: MLX5_FDB_TO_VPORT_*.
    """

    REG_C_0 = 1 << 0
    REG_C_1 = 1 << 1


class FlowSource(IntEnum):
    """Sources of the packets that a switch's entry matches: flow_context.flow_source.

    Source: MLX5_FLOW_CONTEXT_FLOW_SOURCE_*.
    """

    ANY = 0
    UPLINK = 1
    LOCAL_VPORT = 2


class LagPortSelect(IntEnum):
    """Methods of choosing a packet's port in a LAG: lagc.port_select_mode."""

    QUEUE_AFFINITY = 0
    PORT_SELECT_FT = 1
    PORT_SELECT_MPESW = 2


class ModifyLag(IntFlag):
    """Bits of modify_lag_in.field_select (core/lag/lag.c)."""

    TX_REMAP_AFFINITY = 1 << 0
    ACTIVE_PORT = 1 << 1


class PortStatus(IntEnum):
    """Values of paos_reg.admin_status and oper_status (driver.h: MLX5_PORT_*)."""

    UP = 1
    DOWN = 2


class ProtoMask(IntFlag):
    """Values of ptys_reg.proto_mask (MLX5_PTYS_*)."""

    IB = 1 << 0
    EN = 1 << 2


class AnStatus(IntEnum):
    """States of autonegotiation: ptys_reg.an_status (MLX5_AN_*)."""

    UNAVAILABLE = 0
    COMPLETE = 1
    FAILED = 2
    LINK_UP = 3
    LINK_DOWN = 4


class TrustState(IntEnum):
    """Values of qpts_reg.trust_state (port.h: MLX5_QPTS_TRUST_*)."""

    PCP = 1
    DSCP = 2


class ConnectorType(IntEnum):
    """Values of ptys_reg.connector_type (port.h: mlx5e_connector_type, MLX5E_PORT_*)."""

    UNKNOWN = 0
    NONE = 1
    TP = 2
    AUI = 3
    BNC = 4
    MII = 5
    FIBRE = 6
    DA = 7
    OTHER = 8


class LinkMode(IntEnum):
    """Bit numbers of ptys_reg.eth_proto_* (port.h: mlx5e_link_mode, MLX5E_*)."""

    MODE_1000BASE_CX_SGMII = 0
    MODE_1000BASE_KX = 1
    MODE_10GBASE_CX4 = 2
    MODE_10GBASE_KX4 = 3
    MODE_10GBASE_KR = 4
    MODE_20GBASE_KR2 = 5
    MODE_40GBASE_CR4 = 6
    MODE_40GBASE_KR4 = 7
    MODE_56GBASE_R4 = 8
    MODE_10GBASE_CR = 12
    MODE_10GBASE_SR = 13
    MODE_10GBASE_ER = 14
    MODE_40GBASE_SR4 = 15
    MODE_40GBASE_LR4 = 16
    MODE_50GBASE_SR2 = 18
    MODE_100GBASE_CR4 = 20
    MODE_100GBASE_SR4 = 21
    MODE_100GBASE_KR4 = 22
    MODE_100GBASE_LR4 = 23
    MODE_100BASE_TX = 24
    MODE_1000BASE_T = 25
    MODE_10GBASE_T = 26
    MODE_25GBASE_CR = 27
    MODE_25GBASE_KR = 28
    MODE_25GBASE_SR = 29
    MODE_50GBASE_CR2 = 30
    MODE_50GBASE_KR2 = 31


class ExtLinkMode(IntEnum):
    """Bit numbers of ptys_reg.ext_eth_proto_* (port.h: mlx5e_ext_link_mode, MLX5E_*)."""

    SGMII_100M = 0
    MODE_1000BASE_X_SGMII = 1
    MODE_5GBASE_R = 3
    MODE_10GBASE_XFI_XAUI_1 = 4
    MODE_40GBASE_XLAUI_4_XLPPI_4 = 5
    MODE_25GAUI_1_25GBASE_CR_KR = 6
    MODE_50GAUI_2_LAUI_2_50GBASE_CR2_KR2 = 7
    MODE_50GAUI_1_LAUI_1_50GBASE_CR_KR = 8
    MODE_CAUI_4_100GBASE_CR4_KR4 = 9
    MODE_100GAUI_2_100GBASE_CR2_KR2 = 10
    MODE_100GAUI_1_100GBASE_CR_KR = 11
    MODE_200GAUI_4_200GBASE_CR4_KR4 = 12
    MODE_200GAUI_2_200GBASE_CR2_KR2 = 13
    MODE_400GAUI_8_400GBASE_CR8 = 15
    MODE_400GAUI_4_400GBASE_CR4_KR4 = 16
    MODE_800GAUI_8_800GBASE_CR8_KR8 = 19


class CountersGroup(IntEnum):
    """Values of ppcnt_reg.grp (MLX5_*_COUNTERS_GROUP)."""

    IEEE_802_3 = 0x0
    RFC_2863 = 0x1
    RFC_2819 = 0x2
    RFC_3635 = 0x3
    ETHERNET_EXTENDED = 0x5
    PER_PRIORITY = 0x10
    PER_TRAFFIC_CLASS = 0x11
    PHYSICAL_LAYER = 0x12
    PER_TRAFFIC_CLASS_CONGESTION = 0x13
    PHYSICAL_LAYER_STATISTICAL = 0x16
    INFINIBAND_PORT = 0x20
    INFINIBAND_EXTENDED_PORT = 0x21


class ModuleId(IntEnum):
    """Values of the first byte of a module's EEPROM (port.h: MLX5_MODULE_ID_*)."""

    SFP = 0x3
    QSFP = 0xC
    QSFP_PLUS = 0xD
    QSFP28 = 0x11
    DSFP = 0x1B


class EthChecksum(IntFlag):
    """Checksums that the adapter computes: wqe_eth_seg.cs_flags (MLX5_ETH_WQE_*_CSUM)."""

    L3_INNER = 1 << 4
    L4_INNER = 1 << 5
    L3 = 1 << 6
    L4 = 1 << 7


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


class CongProtocol(IntEnum):
    """Owners of congestion parameters in a command (hw/cong.c: mlx5_ib_cong_node_type)."""

    R_ROCE_ECN_RP = 1
    """Reaction point: the sender that obeys notifications."""
    R_ROCE_ECN_NP = 2
    """Notification point: the receiver that sends them."""


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


class CqeRoceL3(IntEnum):
    """Values in bits 25:24 of cqe64.flags_rqpn (MLX5_CQE_ROCE_L3_HEADER_TYPE_*)."""

    GRH = 0x0
    IPV6 = 0x1
    IPV4 = 0x2

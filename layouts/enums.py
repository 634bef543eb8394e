"""Named numbers of the PRM: opcodes, statuses, event types, states.

Names are the driver's without their prefix (MLX5_CMD_OP_CREATE_CQ is ``Op.CREATE_CQ``). Source:
mlx5_ifc.h, device.h, driver.h, qp.h and mlx5_ib.h of Linux 6.12.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Op(IntEnum):
    """Command opcodes (MLX5_CMD_OP_*): all that the driver can name, implemented or not."""

    QUERY_HCA_CAP = 0x100
    QUERY_ADAPTER = 0x101
    INIT_HCA = 0x102
    TEARDOWN_HCA = 0x103
    ENABLE_HCA = 0x104
    DISABLE_HCA = 0x105
    QUERY_PAGES = 0x107
    MANAGE_PAGES = 0x108
    SET_HCA_CAP = 0x109
    QUERY_ISSI = 0x10A
    SET_ISSI = 0x10B
    SET_DRIVER_VERSION = 0x10D
    QUERY_SF_PARTITION = 0x111
    ALLOC_SF = 0x113
    DEALLOC_SF = 0x114
    SUSPEND_VHCA = 0x115
    RESUME_VHCA = 0x116
    QUERY_VHCA_MIGRATION_STATE = 0x117
    SAVE_VHCA_STATE = 0x118
    LOAD_VHCA_STATE = 0x119
    CREATE_MKEY = 0x200
    QUERY_MKEY = 0x201
    DESTROY_MKEY = 0x202
    QUERY_SPECIAL_CONTEXTS = 0x203
    PAGE_FAULT_RESUME = 0x204
    ALLOC_MEMIC = 0x205
    DEALLOC_MEMIC = 0x206
    MODIFY_MEMIC = 0x207
    CREATE_EQ = 0x301
    DESTROY_EQ = 0x302
    QUERY_EQ = 0x303
    GEN_EQE = 0x304
    CREATE_CQ = 0x400
    DESTROY_CQ = 0x401
    QUERY_CQ = 0x402
    MODIFY_CQ = 0x403
    CREATE_QP = 0x500
    DESTROY_QP = 0x501
    RST2INIT_QP = 0x502
    INIT2RTR_QP = 0x503
    RTR2RTS_QP = 0x504
    RTS2RTS_QP = 0x505
    SQERR2RTS_QP = 0x506
    _2ERR_QP = 0x507
    _2RST_QP = 0x50A
    QUERY_QP = 0x50B
    SQD_RTS_QP = 0x50C
    MAD_IFC = 0x50D
    INIT2INIT_QP = 0x50E
    CREATE_PSV = 0x600
    DESTROY_PSV = 0x601
    CREATE_SRQ = 0x700
    DESTROY_SRQ = 0x701
    QUERY_SRQ = 0x702
    ARM_RQ = 0x703
    CREATE_XRC_SRQ = 0x705
    DESTROY_XRC_SRQ = 0x706
    QUERY_XRC_SRQ = 0x707
    ARM_XRC_SRQ = 0x708
    CREATE_DCT = 0x710
    DESTROY_DCT = 0x711
    DRAIN_DCT = 0x712
    QUERY_DCT = 0x713
    ARM_DCT_FOR_KEY_VIOLATION = 0x714
    CREATE_XRQ = 0x717
    DESTROY_XRQ = 0x718
    QUERY_XRQ = 0x719
    ARM_XRQ = 0x71A
    QUERY_XRQ_DC_PARAMS_ENTRY = 0x725
    SET_XRQ_DC_PARAMS_ENTRY = 0x726
    QUERY_XRQ_ERROR_PARAMS = 0x727
    RELEASE_XRQ_ERROR = 0x729
    MODIFY_XRQ = 0x72A
    QUERY_ESW_FUNCTIONS = 0x740
    QUERY_VPORT_STATE = 0x750
    MODIFY_VPORT_STATE = 0x751
    QUERY_ESW_VPORT_CONTEXT = 0x752
    MODIFY_ESW_VPORT_CONTEXT = 0x753
    QUERY_NIC_VPORT_CONTEXT = 0x754
    MODIFY_NIC_VPORT_CONTEXT = 0x755
    QUERY_ROCE_ADDRESS = 0x760
    SET_ROCE_ADDRESS = 0x761
    QUERY_HCA_VPORT_CONTEXT = 0x762
    MODIFY_HCA_VPORT_CONTEXT = 0x763
    QUERY_HCA_VPORT_GID = 0x764
    QUERY_HCA_VPORT_PKEY = 0x765
    QUERY_VNIC_ENV = 0x76F
    QUERY_VPORT_COUNTER = 0x770
    ALLOC_Q_COUNTER = 0x771
    DEALLOC_Q_COUNTER = 0x772
    QUERY_Q_COUNTER = 0x773
    SET_MONITOR_COUNTER = 0x774
    ARM_MONITOR_COUNTER = 0x775
    SET_PP_RATE_LIMIT = 0x780
    QUERY_RATE_LIMIT = 0x781
    CREATE_SCHEDULING_ELEMENT = 0x782
    DESTROY_SCHEDULING_ELEMENT = 0x783
    QUERY_SCHEDULING_ELEMENT = 0x784
    MODIFY_SCHEDULING_ELEMENT = 0x785
    CREATE_QOS_PARA_VPORT = 0x786
    DESTROY_QOS_PARA_VPORT = 0x787
    ALLOC_PD = 0x800
    DEALLOC_PD = 0x801
    ALLOC_UAR = 0x802
    DEALLOC_UAR = 0x803
    CONFIG_INT_MODERATION = 0x804
    ACCESS_REG = 0x805
    ATTACH_TO_MCG = 0x806
    DETACH_FROM_MCG = 0x807
    GET_DROPPED_PACKET_LOG = 0x80A
    QUERY_MAD_DEMUX = 0x80B
    SET_MAD_DEMUX = 0x80C
    NOP = 0x80D
    ALLOC_XRCD = 0x80E
    DEALLOC_XRCD = 0x80F
    ALLOC_TRANSPORT_DOMAIN = 0x816
    DEALLOC_TRANSPORT_DOMAIN = 0x817
    QUERY_CONG_STATUS = 0x822
    MODIFY_CONG_STATUS = 0x823
    QUERY_CONG_PARAMS = 0x824
    MODIFY_CONG_PARAMS = 0x825
    QUERY_CONG_STATISTICS = 0x826
    ADD_VXLAN_UDP_DPORT = 0x827
    DELETE_VXLAN_UDP_DPORT = 0x828
    SET_L2_TABLE_ENTRY = 0x829
    QUERY_L2_TABLE_ENTRY = 0x82A
    DELETE_L2_TABLE_ENTRY = 0x82B
    SET_WOL_ROL = 0x830
    QUERY_WOL_ROL = 0x831
    CREATE_LAG = 0x840
    MODIFY_LAG = 0x841
    QUERY_LAG = 0x842
    DESTROY_LAG = 0x843
    CREATE_VPORT_LAG = 0x844
    DESTROY_VPORT_LAG = 0x845
    CREATE_TIR = 0x900
    MODIFY_TIR = 0x901
    DESTROY_TIR = 0x902
    QUERY_TIR = 0x903
    CREATE_SQ = 0x904
    MODIFY_SQ = 0x905
    DESTROY_SQ = 0x906
    QUERY_SQ = 0x907
    CREATE_RQ = 0x908
    MODIFY_RQ = 0x909
    DESTROY_RQ = 0x90A
    QUERY_RQ = 0x90B
    CREATE_RMP = 0x90C
    MODIFY_RMP = 0x90D
    DESTROY_RMP = 0x90E
    QUERY_RMP = 0x90F
    SET_DELAY_DROP_PARAMS = 0x910
    CREATE_TIS = 0x912
    MODIFY_TIS = 0x913
    DESTROY_TIS = 0x914
    QUERY_TIS = 0x915
    CREATE_RQT = 0x916
    MODIFY_RQT = 0x917
    DESTROY_RQT = 0x918
    QUERY_RQT = 0x919
    SET_FLOW_TABLE_ROOT = 0x92F
    CREATE_FLOW_TABLE = 0x930
    DESTROY_FLOW_TABLE = 0x931
    QUERY_FLOW_TABLE = 0x932
    CREATE_FLOW_GROUP = 0x933
    DESTROY_FLOW_GROUP = 0x934
    QUERY_FLOW_GROUP = 0x935
    SET_FLOW_TABLE_ENTRY = 0x936
    QUERY_FLOW_TABLE_ENTRY = 0x937
    DELETE_FLOW_TABLE_ENTRY = 0x938
    ALLOC_FLOW_COUNTER = 0x939
    DEALLOC_FLOW_COUNTER = 0x93A
    QUERY_FLOW_COUNTER = 0x93B
    MODIFY_FLOW_TABLE = 0x93C
    ALLOC_PACKET_REFORMAT_CONTEXT = 0x93D
    DEALLOC_PACKET_REFORMAT_CONTEXT = 0x93E
    QUERY_PACKET_REFORMAT_CONTEXT = 0x93F
    ALLOC_MODIFY_HEADER_CONTEXT = 0x940
    DEALLOC_MODIFY_HEADER_CONTEXT = 0x941
    QUERY_MODIFY_HEADER_CONTEXT = 0x942
    FPGA_CREATE_QP = 0x960
    FPGA_MODIFY_QP = 0x961
    FPGA_QUERY_QP = 0x962
    FPGA_DESTROY_QP = 0x963
    FPGA_QUERY_QP_COUNTERS = 0x964
    CREATE_GENERAL_OBJECT = 0xA00
    MODIFY_GENERAL_OBJECT = 0xA01
    QUERY_GENERAL_OBJECT = 0xA02
    DESTROY_GENERAL_OBJECT = 0xA03
    CREATE_UCTX = 0xA04
    DESTROY_UCTX = 0xA06
    CREATE_UMEM = 0xA08
    DESTROY_UMEM = 0xA0A
    SYNC_STEERING = 0xB00
    QUERY_VHCA_STATE = 0xB0D
    MODIFY_VHCA_STATE = 0xB0E
    SYNC_CRYPTO = 0xB12
    ALLOW_OTHER_VHCA_ACCESS = 0xB16
    GENERATE_WQE = 0xB17
    QUERY_VUID = 0xB22


def op_name(opcode: int) -> str:
    """Return the PRM's name of an opcode; "opcode 0x..." for one that the PRM does not have."""
    try:
        return Op(opcode).name.lstrip("_")
    except ValueError:
        return f"opcode {opcode:#x}"


class Status(IntEnum):
    """Command statuses (MLX5_CMD_STAT_*_ERR, without the ending)."""

    OK = 0x00
    INT_ERR = 0x01
    BAD_OP_ERR = 0x02
    BAD_PARAM_ERR = 0x03
    BAD_SYS_STATE_ERR = 0x04
    BAD_RES_ERR = 0x05
    RES_BUSY = 0x06
    NOT_READY = 0x07
    LIM_ERR = 0x08
    BAD_RES_STATE_ERR = 0x09
    IX_ERR = 0x0A
    NO_RES_ERR = 0x0F
    BAD_QP_STATE_ERR = 0x10
    BAD_PKT_ERR = 0x30
    BAD_SIZE_OUTS_CQES_ERR = 0x40
    BAD_INP_LEN_ERR = 0x50
    BAD_OUTP_LEN_ERR = 0x51


class DeliveryStat(IntEnum):
    """Reasons for which a command was not executed (MLX5_CMD_DELIVERY_STAT_*): status_own bits
    7:1.
    """

    OK = 0x00
    SIGNAT_ERR = 0x01
    TOK_ERR = 0x02
    BAD_BLK_NUM_ERR = 0x03
    OUT_PTR_ALIGN_ERR = 0x04
    IN_PTR_ALIGN_ERR = 0x05
    FW_ERR = 0x06
    IN_LENGTH_ERR = 0x07
    OUT_LENGTH_ERR = 0x08
    RES_FLD_NOT_CLR_ERR = 0x09
    CMD_DESCR_ERR = 0x10


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


class EventType(IntEnum):
    """Event types (MLX5_EVENT_TYPE_*)."""

    COMP = 0x00
    PATH_MIG = 0x01
    COMM_EST = 0x02
    SQ_DRAINED = 0x03
    CQ_ERROR = 0x04
    WQ_CATAS_ERROR = 0x05
    PATH_MIG_FAILED = 0x07
    INTERNAL_ERROR = 0x08
    PORT_CHANGE = 0x09
    CMD = 0x0A
    PAGE_REQUEST = 0x0B
    PAGE_FAULT = 0x0C
    NIC_VPORT_CHANGE = 0x0D
    ESW_FUNCTIONS_CHANGED = 0x0E
    VHCA_STATE_CHANGE = 0x0F
    WQ_INVAL_REQ_ERROR = 0x10
    WQ_ACCESS_ERROR = 0x11
    SRQ_CATAS_ERROR = 0x12
    SRQ_LAST_WQE = 0x13
    SRQ_RQ_LIMIT = 0x14
    GPIO_EVENT = 0x15
    PORT_MODULE_EVENT = 0x16
    TEMP_WARN_EVENT = 0x17
    XRQ_ERROR = 0x18
    REMOTE_CONFIG = 0x19
    DB_BF_CONGESTION = 0x1A
    STALL_EVENT = 0x1B
    DCT_DRAINED = 0x1C
    DCT_KEY_VIOLATION = 0x1D
    FPGA_ERROR = 0x20
    FPGA_QP_ERROR = 0x21
    GENERAL_EVENT = 0x22
    MONITOR_COUNTER = 0x24
    PPS_EVENT = 0x25
    DEVICE_TRACER = 0x26
    OBJECT_CHANGE = 0x27


class PortType(IntEnum):
    """Link layer of the port, cmd_hca_cap.port_type (MLX5_CAP_PORT_TYPE_*)."""

    IB = 0
    ETH = 1


class PortChange(IntEnum):
    """Sub-types of a PORT_CHANGE event (MLX5_PORT_CHANGE_SUBTYPE_*)."""

    DOWN = 1
    ACTIVE = 4
    INITIALIZED = 5
    LID = 6
    PKEY = 7
    GUID = 8
    CLIENT_REREG = 9


class PageFaultSubtype(IntEnum):
    """Sub-types of a PAGE_FAULT event (MLX5_PFAULT_SUBTYPE_*)."""

    WQE = 0
    RDMA = 1
    MEMORY = 2


class QpState(IntEnum):
    """States of a queue pair (MLX5_QP_STATE_*)."""

    RST = 0
    INIT = 1
    RTR = 2
    RTS = 3
    SQER = 4
    SQD = 5
    ERR = 6
    SQ_DRAINING = 7
    SUSPENDED = 9


class QpType(IntEnum):
    """Transport services (MLX5_QP_ST_*), the field st of a qpc."""

    RC = 0x0
    UC = 0x1
    UD = 0x2
    XRC = 0x3
    MLX = 0x4
    DCI = 0x5
    DCT = 0x6
    QP0 = 0x7
    QP1 = 0x8
    RAW_ETHERTYPE = 0x9
    RAW_IPV6 = 0xA
    SNIFFER = 0xB
    REG_UMR = 0xC


class PmState(IntEnum):
    """Path migration states of a queue pair (MLX5_QP_PM_*), the field pm_state of a qpc."""

    ARMED = 0
    REARM = 1
    MIGRATED = 3


class UlpStatelessOffloadMode(IntEnum):
    """Offload modes of a datagram queue pair for IP over InfiniBand (ulp_stateless_offload_mode of
    a qpc).

    BASIC: its send WQEs have an Ethernet segment, for checksums and large sends, and its receive
    completions report checksums (hw/wr.c: handle_qpt_ud). ENHANCED: it has no rings; Ethernet
    queues send and receive for it (core/ipoib/ipoib.c).
    """

    NONE = 0
    BASIC = 1
    ENHANCED = 2


class RqType(IntEnum):
    """Sources of a queue pair's receive WQEs (MLX5_*_RQ), the field rq_type of a qpc."""

    RQ = 0
    SRQ = 1
    CRQ = 2
    ZERO_LEN_RQ = 3


class GeneralObject(IntEnum):
    """Types of general objects (rdma-core's mlx5_ifc.h: MLX5_OBJ_TYPE_*)."""

    SW_ICM = 0x8
    GENEVE_TLV_OPT = 0xB
    ENCRYPTION_KEY = 0xC
    MATCH_DEFINER = 0x18
    CRYPTO_LOGIN = 0x1F
    SAMPLER = 0x20
    FLOW_METER_ASO = 0x24
    SCHEDULING_ELEMENT = 0x26
    RESERVED_QPN = 0x2C


class AccessMode(IntEnum):
    """Translation modes of an mkey (MLX5_MKC_ACCESS_MODE_*), five bits split over two fields of
    mkc.
    """

    PA = 0x0
    MTT = 0x1
    KLMS = 0x2
    KSM = 0x3
    SW_ICM = 0x4
    MEMIC = 0x5
    CROSSING = 0x6


class PageOp(IntEnum):
    """Values of op_mod of MANAGE_PAGES (MLX5_PAGES_*)."""

    CANT_GIVE = 0
    GIVE = 1
    TAKE = 2


class BootPages(IntEnum):
    """Values of op_mod of QUERY_PAGES (MLX5_*_PAGES in core/pagealloc.c)."""

    BOOT = 1
    INIT = 2
    REGULAR = 3


class TeardownProfile(IntEnum):
    """Profiles of TEARDOWN_HCA (MLX5_TEARDOWN_HCA_IN_PROFILE_*)."""

    GRACEFUL_CLOSE = 0
    FORCE_CLOSE = 1
    PREPARE_FAST_TEARDOWN = 2


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


class HealthSyndrome(IntEnum):
    """Errors of the firmware (MLX5_INITIAL_SEG_HEALTH_SYNDROME_*)."""

    FW_INTERNAL_ERR = 1


class NicInterface(IntEnum):
    """Interface states of the function (MLX5_INITIAL_SEG_NIC_INTERFACE_*)."""

    FULL_DRIVER = 0
    DISABLED = 1
    NO_DRAM_NIC = 2
    SW_RESET = 7


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


class Opcode(IntEnum):
    """Send opcodes (MLX5_OPCODE_*), the low byte of a control segment."""

    NOP = 0x00
    SEND_INVAL = 0x01
    RDMA_WRITE = 0x08
    RDMA_WRITE_IMM = 0x09
    SEND = 0x0A
    SEND_IMM = 0x0B
    LSO = 0x0E
    RDMA_READ = 0x10
    ATOMIC_CS = 0x11
    ATOMIC_FA = 0x12
    ATOMIC_MASKED_CS = 0x14
    ATOMIC_MASKED_FA = 0x15
    BIND_MW = 0x18
    SET_PSV = 0x20
    DUMP = 0x23
    UMR = 0x25
    TAG_MATCHING = 0x28
    ENHANCED_MPSW = 0x29
    ACCESS_ASO = 0x2D
    MMO = 0x2F


class UmrFlag(IntFlag):
    """Flags of wqe_umr_ctrl_seg.flags.

    The driver's two names for the states name what a check rejects (MLX5_UMR_CHECK_NOT_FREE is
    0x20). The names here say which state must hold, as in rdma-core.
    """

    CHECK_QPN = 0x08
    TRANSLATION_OFFSET = 0x10
    MUST_BE_FREE = 0x20
    MUST_NOT_BE_FREE = 0x40
    INLINE = 0x80


class MkeyMask(IntFlag):
    """Fields of a key that a UMR changes (MLX5_MKEY_MASK_*), in wqe_umr_ctrl_seg.mkey_mask."""

    LEN = 1 << 0
    PAGE_SIZE = 1 << 1
    START_ADDR = 1 << 6
    PD = 1 << 7
    EN_RINVAL = 1 << 8
    EN_SIGERR = 1 << 9
    BSF_EN = 1 << 12
    KEY = 1 << 13
    QPN = 1 << 14
    LR = 1 << 17
    LW = 1 << 18
    RR = 1 << 19
    RW = 1 << 20
    A = 1 << 21
    SMALL_FENCE = 1 << 23
    RELAXED_ORDERING_WRITE = 1 << 25
    FREE = 1 << 29
    PAGE_SIZE_5 = 1 << 42
    RELAXED_ORDERING_READ = 1 << 47


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


class CqStatus(IntEnum):
    """States and errors of a completion queue (MLX5_CQC_STATUS_*)."""

    OK = 0x0
    CQ_OVERFLOW = 0x9
    CQ_WRITE_FAIL = 0xA


class CqPeriodMode(IntEnum):
    """Starts of the period of a CQ's moderation (MLX5_CQ_PERIOD_MODE_*)."""

    START_FROM_EQE = 0x0
    START_FROM_CQE = 0x1


class MiniCqeFormat(IntEnum):
    """Contents of a compressed completion for each packet (mini_cqe_res_format).

    The last one is mini_cqe_res_format_ext 1. Source: DPDK's mlx5_prm.h: MLX5_CQE_RESP_FORMAT_*.
    """

    HASH = 0
    CSUM = 1
    FTAG_STRIDX = 2
    CSUM_STRIDX = 3
    L34H_STRIDX = 4


class CompressionLayout(IntEnum):
    """Layouts of a compressed completion (MLX5_CQE_COMPRESS_LAYOUT_*)."""

    BASIC = 0
    ENHANCED = 1


class CqeFormat(IntEnum):
    """Formats in bits 3:2 of op_own (device.h: MLX5_COMPRESSED and its neighbours)."""

    NO_INLINE_DATA = 0
    INLINE_DATA32_SEG = 1
    INLINE_DATA64_SEG = 2
    COMPRESSED = 3


class CqNotification(IntEnum):
    """Arm states of a completion queue (MLX5_CQC_ST_*)."""

    FIRED = 0xA
    SOLICITED_ARMED = 0x6
    ARMED = 0x9


class CqErrorSyndrome(IntEnum):
    """Causes of a CQ_ERROR event (MLX5_CQ_ERROR_SYNDROME_*)."""

    CQ_OVERRUN = 0x1
    CQ_ACCESS_VIOLATION_ERROR = 0x2


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


class RegId(IntEnum):
    """Access registers (MLX5_REG_*): all that the driver can name, modelled or not, and those that
    mstflint's tools read.
    """

    QPTS = 0x4002
    QETCR = 0x4005
    QTCT = 0x400A
    QPDPM = 0x4013
    QCAM = 0x4019
    DCBX_PARAM = 0x4020
    DCBX_APP = 0x4021
    FPGA_CAP = 0x4022
    FPGA_CTRL = 0x4023
    FPGA_ACCESS_REG = 0x4024
    ROCE_ACCL = 0x402C
    CORE_DUMP = 0x402E
    PCAP = 0x5001
    PMLP = 0x5002
    PMTU = 0x5003
    PTYS = 0x5004
    PAOS = 0x5006
    PFCC = 0x5007
    PPCNT = 0x5008
    PUDE = 0x5009
    PPTB = 0x500B
    PBMC = 0x500C
    PELC = 0x500E
    PVLC = 0x500F
    PMPE = 0x5010
    PMAOS = 0x5012
    PPLM = 0x5023
    SLTP = 0x5027
    PDDR = 0x5031
    PPAOS = 0x5040
    PCMR = 0x5041
    PCAM = 0x507F
    NODE_DESC = 0x6001
    HOST_ENDIANNESS = 0x7004
    MTCAP = 0x9009
    MTMP = 0x900A
    MCIA = 0x9014
    MGIR = 0x9020
    MNVDA = 0x9024
    MFRL = 0x9028
    MLCR = 0x902B
    MRTC = 0x902D
    MTRC_CAP = 0x9040
    MTRC_CONF = 0x9041
    MTRC_STDB = 0x9042
    MTRC_CTRL = 0x9043
    MPEIN = 0x9050
    MPCNT = 0x9051
    MTPPS = 0x9053
    MTPPSE = 0x9054
    MTUTC = 0x9055
    MPEGC = 0x9056
    MPIR = 0x9059
    MCQS = 0x9060
    MCQI = 0x9061
    MCC = 0x9062
    MCDA = 0x9063
    MCAM = 0x907F
    MSECQ = 0x9155
    MSEES = 0x9156
    MIRC = 0x9162
    MTPTM = 0x9180
    MTCTR = 0x9181
    SBPR = 0xB001
    SBCM = 0xB002
    SBCAM = 0xB01F
    RESOURCE_DUMP = 0xC000
    DTOR = 0xC00E

"""Access registers, and values of the port's."""

from __future__ import annotations

from enum import IntEnum, IntFlag


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

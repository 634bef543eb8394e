# Written by scripts/gen-view-types from sa.py; a test fails when it is stale.

from enum import IntEnum, IntFlag
from typing import Final

from layouts.codec import View
from layouts.fields import Items, Nested, Octets
from layouts.prm import Prm
from layouts.wire.mads import MadHdr, NodeInfo, PortInfo, RmppHdr

CLASS_VERSION: Final = 2
DATA_BYTES: Final = 200
SA_HDR_BYTES: Final = 20
RMPP_VERSION: Final = 1
RMPP_NO_RESPTIME: Final = 31

class SaAttr(IntEnum):
    """Attributes of queries (IBTA 15.2.5; IB_SA_ATTR_*)."""

    CLASS_PORTINFO = 0x01
    NOTICE = 0x02
    INFORM_INFO = 0x03
    NODE_REC = 0x11
    PORT_INFO_REC = 0x12
    SERVICE_REC = 0x31
    PATH_REC = 0x35
    MC_MEMBER_REC = 0x38
    INFORM_INFO_REC = 0xF3

class SaStatus(IntEnum):
    """Statuses of this class (IBTA table 186)."""

    NO_RESOURCES = 0x0100
    REQ_INVALID = 0x0200
    NO_RECORDS = 0x0300
    TOO_MANY_RECORDS = 0x0400
    REQ_INVALID_GID = 0x0500
    REQ_INSUFFICIENT_COMPONENTS = 0x0600
    REQ_DENIED = 0x0700

class SaCap(IntFlag):
    """Bits of ClassPortInfo.CapabilityMask of subnet administration (IBTA 15.2.1.1)."""

    UD_MULTICAST_SUP = 1 << 9
    PORT_INFO_CAP_MASK_MATCH_SUP = 1 << 13

class SaCap2(IntFlag):
    """Bits of ClassPortInfo.CapabilityMask2 (IB_SA_CAP_MASK2_*)."""

    SENDONLY_FULL_MEM_SUPPORT = 1 << 12

class RmppType(IntEnum):
    """Kinds of RMPP packets (IBTA 13.6.2.1)."""

    DATA = 1
    ACK = 2
    STOP = 3
    ABORT = 4

class RmppFlags(IntFlag):
    """Flags of RMPP packets (IBTA 13.6.2.1)."""

    ACTIVE = 1
    FIRST = 2
    LAST = 4

class RmppStatus(IntEnum):
    """Reasons for the end of a transaction (IBTA table 111; IB_MGMT_RMPP_STATUS_*)."""

    T2L = 118
    BADT = 121
    W2S = 122
    S2B = 123
    UNV = 125
    TMR = 126
    UNSPEC = 127

class JoinState(IntFlag):
    """Bits of MCMemberRecord.JoinState (IBTA 15.2.5.17.1)."""

    FULL_MEMBER = 1
    NON_MEMBER = 2
    SENDONLY_NON_MEMBER = 4
    SENDONLY_FULL_MEMBER = 8

class Selector(IntEnum):
    """Comparisons with a value in a query (IBTA 15.2.5.16; enum ib_sa_selector)."""

    GT = 0
    LT = 1
    EQ = 2
    BEST = 3

class SmTrap(IntEnum):
    """Notices that the subnet's manager issues (IBTA table 131)."""

    GID_IN_SERVICE = 64
    GID_OUT_OF_SERVICE = 65
    MGID_CREATED = 66
    MGID_DELETED = 67

class SaMad(View):
    mad_hdr: Nested[MadHdr]
    rmpp_hdr: Nested[RmppHdr]
    sm_key: int
    attr_offset: int
    comp_mask: int
    data: Octets

sa_mad: Prm[SaMad]

class PathRec(View):
    service_id_8msb: int
    service_id_56lsb: int
    dgid: Octets
    sgid: Octets
    dlid: int
    slid: int
    raw_traffic: int
    flow_label: int
    hop_limit: int
    traffic_class: int
    reversible: int
    numb_path: int
    pkey: int
    qos_class: int
    sl: int
    mtu_selector: int
    mtu: int
    rate_selector: int
    rate: int
    packet_life_time_selector: int
    packet_life_time: int
    preference: int

path_rec: Prm[PathRec]

class McmemberRec(View):
    mgid: Octets
    port_gid: Octets
    qkey: int
    mlid: int
    mtu_selector: int
    mtu: int
    traffic_class: int
    pkey: int
    rate_selector: int
    rate: int
    packet_life_time_selector: int
    packet_life_time: int
    sl: int
    flow_label: int
    hop_limit: int
    scope: int
    join_state: int
    proxy_join: int

mcmember_rec: Prm[McmemberRec]

class NodeRec(View):
    lid: int
    node_info: Nested[NodeInfo]
    node_desc: Octets

node_rec: Prm[NodeRec]

class PortinfoRec(View):
    lid: int
    port_num: int
    options: int
    port_info: Nested[PortInfo]

portinfo_rec: Prm[PortinfoRec]

class ServiceRec(View):
    service_id: int
    service_gid: Octets
    service_pkey: int
    service_lease: int
    service_key: Octets
    service_name: Octets
    service_data8: Items[int]
    service_data16: Items[int]
    service_data32: Items[int]
    service_data64: Items[int]

service_rec: Prm[ServiceRec]

class InformInfo(View):
    gid: Octets
    lid_range_begin: int
    lid_range_end: int
    is_generic: int
    subscribe: int
    trap_type: int
    trap_num: int
    qpn: int
    resp_time: int
    producer_type: int

inform_info: Prm[InformInfo]

class InformInfoRec(View):
    subscriber_gid: Octets
    subscriber_enum: int
    inform_info: Nested[InformInfo]

inform_info_rec: Prm[InformInfoRec]

class Notice(View):
    is_generic: int
    trap_type: int
    producer_type: int
    trap_num: int
    issuer_lid: int
    toggle: int
    count: int
    gid: Octets
    issuer_gid: Octets

notice: Prm[Notice]

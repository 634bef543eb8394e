"""Subnet administration: the MAD that carries records, and the records.

Source: IBTA volume 1, 15.2 (methods, attributes, statuses), 13.6 (RMPP), 13.4.8.2 and 13.4.8.3
(Notice and InformInfo). Names are those of ib_sa.h of Linux 6.12. The order of a record's fields,
reserved ones included, is also the order of its bits in a query's component mask.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from layouts.prm import Prm, array, bits, nested, octets, rsvd
from layouts.wire.mads import Notice, mad_hdr, node_info, port_info, rmpp_hdr

CLASS_VERSION = 2
DATA_BYTES = 200
"""Bytes of a table of records in one MAD."""
SA_HDR_BYTES = 20
"""Size in bytes of SM_Key, attribute offset and component mask, which count into an RMPP payload's
length.
"""
RMPP_VERSION = 1
RMPP_NO_RESPTIME = 0x1F


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


# Rows end where words of 32 bits end, as in the specification's figures.
# fmt: off

class sa_mad(Prm):
    mad_hdr = nested(mad_hdr); rmpp_hdr = nested(rmpp_hdr); sm_key = bits(64)
    attr_offset = bits(16); _ = rsvd(16); comp_mask = bits(64); data = octets(DATA_BYTES)

class path_rec(Prm):
    service_id_8msb = bits(8); service_id_56lsb = bits(56); dgid = octets(16); sgid = octets(16)
    dlid = bits(16); slid = bits(16)
    raw_traffic = bits(1); _ = rsvd(3); flow_label = bits(20); hop_limit = bits(8)
    traffic_class = bits(8); reversible = bits(1); numb_path = bits(7); pkey = bits(16)
    qos_class = bits(12); sl = bits(4); mtu_selector = bits(2); mtu = bits(6)
    rate_selector = bits(2); rate = bits(6)
    packet_life_time_selector = bits(2); packet_life_time = bits(6); preference = bits(8)
    _ = rsvd(48)

class mcmember_rec(Prm):
    mgid = octets(16); port_gid = octets(16); qkey = bits(32)
    mlid = bits(16); mtu_selector = bits(2); mtu = bits(6); traffic_class = bits(8)
    pkey = bits(16); rate_selector = bits(2); rate = bits(6); packet_life_time_selector = bits(2)
    packet_life_time = bits(6); sl = bits(4); flow_label = bits(20); hop_limit = bits(8)
    scope = bits(4); join_state = bits(4); proxy_join = bits(1); _ = rsvd(23)

class node_rec(Prm):
    lid = bits(16); _ = rsvd(16); node_info = nested(node_info); node_desc = octets(64)

class portinfo_rec(Prm):
    lid = bits(16); port_num = bits(8); options = bits(8); port_info = nested(port_info)

class service_rec(Prm):
    service_id = bits(64); service_gid = octets(16); service_pkey = bits(16); _ = rsvd(16)
    service_lease = bits(32); service_key = octets(16); service_name = octets(64)
    service_data8 = array(16, bits(8)); service_data16 = array(8, bits(16))
    service_data32 = array(4, bits(32)); service_data64 = array(2, bits(64))

class inform_info(Prm):
    gid = octets(16); lid_range_begin = bits(16); lid_range_end = bits(16)
    _ = rsvd(16); is_generic = bits(8); subscribe = bits(8)
    trap_type = bits(16); trap_num = bits(16); qpn = bits(24); _ = rsvd(3); resp_time = bits(5)
    _ = rsvd(8); producer_type = bits(24)

class inform_info_rec(Prm):
    subscriber_gid = octets(16); subscriber_enum = bits(16); _ = rsvd(48)
    inform_info = nested(inform_info)

class notice(Notice): _ = rsvd(48); gid = octets(16); _ = rsvd(256); issuer_gid = octets(16)

# fmt: on

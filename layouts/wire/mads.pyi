# Written by scripts/gen-view-types from mads.py; a test fails when it is stale.

from enum import IntEnum, IntFlag
from typing import Any, Final

from layouts.codec import View
from layouts.fields import Items, Nested, Octets
from layouts.prm import Prm

MAD_BYTES: Final = 256
BASE_VERSION: Final = 1
RESPONSE: Final = 128
DIRECTION: Final = 32768
NOTICE: tuple[Any, ...]

class MgmtClass(IntEnum):
    """Management classes (IBTA table 102; IB_MGMT_CLASS_*)."""

    SUBN_LID_ROUTED = 0x01
    SUBN_ADM = 0x03
    PERF_MGMT = 0x04
    SUBN_DIRECTED_ROUTE = 0x81

class Method(IntEnum):
    """Methods of requests (IBTA 13.4.5, 15.2.2; IB_MGMT_METHOD_*, IB_SA_METHOD_*)."""

    GET = 0x01
    SET = 0x02
    SEND = 0x03
    TRAP = 0x05
    REPORT = 0x06
    TRAP_REPRESS = 0x07
    GET_TABLE = 0x12
    GET_TRACE_TBL = 0x13
    GET_MULTI = 0x14
    DELETE = 0x15

class MadStatus(IntEnum):
    """Statuses of any class (IBTA 13.4.7; IB_MGMT_MAD_STATUS_*)."""

    SUCCESS = 0x0000
    BUSY = 0x0001
    BAD_VERSION = 0x0004
    UNSUPPORTED_METHOD = 0x0008
    UNSUPPORTED_METHOD_ATTRIB = 0x000C
    INVALID_ATTRIB_VALUE = 0x001C

class SmpAttr(IntEnum):
    """Subnet management attributes (IBTA 14.2.5; IB_SMP_ATTR_*)."""

    NOTICE = 0x0002
    NODE_DESC = 0x0010
    NODE_INFO = 0x0011
    SWITCH_INFO = 0x0012
    GUID_INFO = 0x0014
    PORT_INFO = 0x0015
    PKEY_TABLE = 0x0016
    SL_TO_VL_TABLE = 0x0017
    VL_ARB_TABLE = 0x0018
    LINEAR_FORW_TABLE = 0x0019
    MCAST_FORW_TABLE = 0x001B
    SM_INFO = 0x0020
    EXTENDED_PORT_INFO = 0xFF90
    """Attribute of NVIDIA's own (hw/mlx5_ib.h: MLX5_ATTR_EXTENDED_PORT_INFO)."""

class SmState(IntEnum):
    """Values of SMInfo.SMState (IBTA 14.2.5.13)."""

    NOT_ACTIVE = 0
    DISCOVERING = 1
    STANDBY = 2
    MASTER = 3

class SmaTrap(IntEnum):
    """Notices of a node's subnet management agent (IBTA table 131)."""

    LINK_STATE_CHANGE = 128
    LINK_INTEGRITY = 129
    BUFFER_OVERRUN = 130
    FLOW_CONTROL_WATCHDOG = 131
    LOCAL_CHANGE = 144
    BAD_MKEY = 256

class NoticeType(IntEnum):
    """Values of Notice.Type (IBTA 13.4.8.2)."""

    URGENT = 1
    SECURITY = 2
    INFORMATIONAL = 4

class LocalChange(IntEnum):
    """Changes that trap 144 reports: the bits of its last word (IBTA table 144)."""

    CAPABILITIES = 0
    NODE_DESCRIPTION = 1

class PmaAttr(IntEnum):
    """Performance management attributes (IBTA 16.1.3; IB_PMA_*)."""

    CLASS_PORT_INFO = 0x0001
    PORT_COUNTERS = 0x0012
    PORT_COUNTERS_EXT = 0x001D

class PmaCap(IntFlag):
    """ClassPortInfo capabilities of performance management (IB_PMA_CLASS_CAP_*)."""

    EXT_WIDTH = 1 << 9
    XMIT_WAIT = 1 << 12

class NodeType(IntEnum):
    """Values of NodeInfo.NodeType (IBTA 14.2.5.3)."""

    CHANNEL_ADAPTER = 1
    SWITCH = 2
    ROUTER = 3

class MadHdr(View):
    base_version: int
    mgmt_class: int
    class_version: int
    method: int
    status: int
    class_specific: int
    tid: int
    attr_id: int
    attr_mod: int

mad_hdr: Prm[MadHdr]

class RmppHdr(View):
    rmpp_version: int
    rmpp_type: int
    rmpp_rtime: int
    rmpp_flags: int
    rmpp_status: int
    seg_num: int
    paylen_newwin: int

rmpp_hdr: Prm[RmppHdr]

class Smp(View):
    base_version: int
    mgmt_class: int
    class_version: int
    method: int
    status: int
    hop_ptr: int
    hop_cnt: int
    tid: int
    attr_id: int
    attr_mod: int
    mkey: int
    dr_slid: int
    dr_dlid: int
    data: Octets
    initial_path: Octets
    return_path: Octets

smp: Prm[Smp]

class ClassPortInfoCapMask2RespTime(View):
    capability_mask2: int
    resp_time: int

class ClassPortInfo(View):
    base_version: int
    class_version: int
    capability_mask: int
    cap_mask2_resp_time: Nested[ClassPortInfoCapMask2RespTime]
    redirect_gid: Octets
    redirect_tcslfl: int
    redirect_lid: int
    redirect_pkey: int
    redirect_qp: int
    redirect_qkey: int
    trap_gid: Octets
    trap_tcslfl: int
    trap_lid: int
    trap_pkey: int
    trap_hlqp: int
    trap_qkey: int

class_port_info: Prm[ClassPortInfo]

class NodeInfo(View):
    base_version: int
    class_version: int
    node_type: int
    num_ports: int
    sys_guid: int
    node_guid: int
    port_guid: int
    partition_cap: int
    device_id: int
    revision: int
    local_port_num: int
    vendor_id: int

node_info: Prm[NodeInfo]

class PortInfo(View):
    mkey: int
    gid_prefix: int
    lid: int
    sm_lid: int
    cap_mask: int
    diag_code: int
    mkey_lease_period: int
    local_port_num: int
    link_width_enabled: int
    link_width_supported: int
    link_width_active: int
    link_speed_supported: int
    port_state: int
    port_physical_state: int
    link_down_default_state: int
    mkey_protect_bits: int
    lmc: int
    link_speed_active: int
    link_speed_enabled: int
    neighbor_mtu: int
    master_sm_sl: int
    vl_cap: int
    init_type: int
    vl_high_limit: int
    vl_arb_high_cap: int
    vl_arb_low_cap: int
    init_type_reply: int
    mtu_cap: int
    vl_stall_count: int
    hoq_life: int
    operational_vls: int
    partition_enforcement_inbound: int
    partition_enforcement_outbound: int
    filter_raw_inbound: int
    filter_raw_outbound: int
    mkey_violations: int
    pkey_violations: int
    qkey_violations: int
    guid_cap: int
    client_reregister: int
    multicast_pkey_trap_suppression: int
    subnet_timeout: int
    resp_time_value: int
    local_phy_errors: int
    overrun_errors: int
    max_credit_hint: int
    link_roundtrip_latency: int
    cap_mask2: int
    link_speed_ext_active: int
    link_speed_ext_supported: int
    link_speed_ext_enabled: int

port_info: Prm[PortInfo]

class SwitchInfo(View):
    linear_fdb_cap: int
    random_fdb_cap: int
    multicast_fdb_cap: int
    linear_fdb_top: int
    default_port: int
    default_mcast_primary: int
    default_mcast_not_primary: int
    life_time_value: int
    port_state_change: int
    opt_sl_to_vl_mapping: int
    lids_per_port: int
    partition_enforcement_cap: int
    inbound_enforcement_cap: int
    outbound_enforcement_cap: int
    filter_raw_inbound_cap: int
    filter_raw_outbound_cap: int
    enhanced_port0: int
    multicast_fdb_top: int

switch_info: Prm[SwitchInfo]

class SmInfo(View):
    guid: int
    sm_key: int
    act_count: int
    priority: int
    sm_state: int

sm_info: Prm[SmInfo]

class LinkNotice(View):
    is_generic: int
    trap_type: int
    producer_type: int
    trap_num: int
    issuer_lid: int
    toggle: int
    count: int
    lid: int

link_notice: Prm[LinkNotice]

class PortNotice(View):
    is_generic: int
    trap_type: int
    producer_type: int
    trap_num: int
    issuer_lid: int
    toggle: int
    count: int
    lid: int
    port_num: int

port_notice: Prm[PortNotice]

class BadMkeyNotice(View):
    is_generic: int
    trap_type: int
    producer_type: int
    trap_num: int
    issuer_lid: int
    toggle: int
    count: int
    lid: int
    dr_slid: int
    method: int
    attr_id: int
    attr_mod: int
    mkey: int
    dr_notice: int
    dr_path_truncated: int
    dr_hop_count: int
    dr_return_path: Octets

bad_mkey_notice: Prm[BadMkeyNotice]

class LocalChangeNotice(View):
    is_generic: int
    trap_type: int
    producer_type: int
    trap_num: int
    issuer_lid: int
    toggle: int
    count: int
    lid: int
    other_local_changes: int
    cap_mask: int
    link_speed_change: int
    link_width_change: int
    node_description_change: int
    cap_mask2: int

local_change_notice: Prm[LocalChangeNotice]

class LinearForwTable(View):
    port: Items[int]

linear_forw_table: Prm[LinearForwTable]

class McastForwTable(View):
    port_mask: Items[int]

mcast_forw_table: Prm[McastForwTable]

class GuidInfo(View):
    guid: Items[int]

guid_info: Prm[GuidInfo]

class PkeyTable(View):
    pkey: Items[int]

pkey_table: Prm[PkeyTable]

class PmaMad(View):
    mad_hdr: Nested[MadHdr]
    data: Octets

pma_mad: Prm[PmaMad]

class PmaPortcounters(View):
    port_select: int
    counter_select: int
    symbol_error_counter: int
    link_error_recovery_counter: int
    link_downed_counter: int
    port_rcv_errors: int
    port_rcv_remphys_errors: int
    port_rcv_switch_relay_errors: int
    port_xmit_discards: int
    port_xmit_constraint_errors: int
    port_rcv_constraint_errors: int
    local_link_integrity_errors: int
    excessive_buffer_overrun_errors: int
    vl15_dropped: int
    port_xmit_data: int
    port_rcv_data: int
    port_xmit_packets: int
    port_rcv_packets: int
    port_xmit_wait: int

pma_portcounters: Prm[PmaPortcounters]

class PmaPortcountersExt(View):
    port_select: int
    counter_select: int
    port_xmit_data: int
    port_rcv_data: int
    port_xmit_packets: int
    port_rcv_packets: int
    port_unicast_xmit_packets: int
    port_unicast_rcv_packets: int
    port_multicast_xmit_packets: int
    port_multicast_rcv_packets: int

pma_portcounters_ext: Prm[PmaPortcountersExt]

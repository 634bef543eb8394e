"""Management datagrams: headers, and the attributes that every port has.

Source: IBTA volume 1, 13.4 (MAD header), 13.6 (RMPP), 14.2.5 (subnet management attributes), 16.1
(performance management). Names are those of ib_mad.h, ib_smi.h and ib_pma.h of Linux 6.12; fields
that the kernel has packed into one byte carry IBTA's names.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from layouts.prm import Prm, array, bits, nested, octets, rsvd

MAD_BYTES = 256
BASE_VERSION = 1
RESPONSE = 0x80
"""Bit of a method that marks a response (IBTA 13.4.5)."""
DIRECTION = 0x8000
"""Bit of the status of a directed-route SMP that returns to its sender (IBTA 14.2.1.2)."""


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

    ALL_PORT_SELECT = 1 << 8
    EXT_WIDTH = 1 << 9
    XMIT_WAIT = 1 << 12


class NodeType(IntEnum):
    """Values of NodeInfo.NodeType (IBTA 14.2.5.3)."""

    CHANNEL_ADAPTER = 1
    SWITCH = 2
    ROUTER = 3


# Rows end where words of 32 bits end, as in the specification's figures.
# fmt: off

class mad_hdr(Prm, c_name="ib_mad_hdr"):
    base_version = bits(8); mgmt_class = bits(8); class_version = bits(8); method = bits(8)
    status = bits(16); class_specific = bits(16); tid = bits(64); attr_id = bits(16); _ = rsvd(16)
    attr_mod = bits(32)

class rmpp_hdr(Prm):
    rmpp_version = bits(8); rmpp_type = bits(8); rmpp_rtime = bits(5); rmpp_flags = bits(3)
    rmpp_status = bits(8); seg_num = bits(32); paylen_newwin = bits(32)

class smp(Prm, c_name="ib_smp"):
    base_version = bits(8); mgmt_class = bits(8); class_version = bits(8); method = bits(8)
    status = bits(16); hop_ptr = bits(8); hop_cnt = bits(8); tid = bits(64)
    attr_id = bits(16); _ = rsvd(16); attr_mod = bits(32); mkey = bits(64)
    dr_slid = bits(16); dr_dlid = bits(16); _ = rsvd(224); data = octets(64)
    initial_path = octets(64); return_path = octets(64)

class class_port_info(Prm, c_name="ib_class_port_info"):
    class cap_mask2_resp_time_bits(Prm): capability_mask2 = bits(27); resp_time = bits(5)

    base_version = bits(8); class_version = bits(8); capability_mask = bits(16)
    cap_mask2_resp_time = nested(cap_mask2_resp_time_bits); redirect_gid = octets(16)
    redirect_tcslfl = bits(32); redirect_lid = bits(16); redirect_pkey = bits(16)
    redirect_qp = bits(32); redirect_qkey = bits(32); trap_gid = octets(16); trap_tcslfl = bits(32)
    trap_lid = bits(16); trap_pkey = bits(16); trap_hlqp = bits(32); trap_qkey = bits(32)

class node_info(Prm):
    base_version = bits(8); class_version = bits(8); node_type = bits(8); num_ports = bits(8)
    sys_guid = bits(64); node_guid = bits(64); port_guid = bits(64)
    partition_cap = bits(16); device_id = bits(16); revision = bits(32)
    local_port_num = bits(8); vendor_id = bits(24)

class port_info(Prm):
    mkey = bits(64); gid_prefix = bits(64); lid = bits(16); sm_lid = bits(16); cap_mask = bits(32)
    diag_code = bits(16); mkey_lease_period = bits(16)
    local_port_num = bits(8); link_width_enabled = bits(8); link_width_supported = bits(8)
    link_width_active = bits(8)
    link_speed_supported = bits(4); port_state = bits(4); port_physical_state = bits(4)
    link_down_default_state = bits(4); mkey_protect_bits = bits(2); _ = rsvd(3); lmc = bits(3)
    link_speed_active = bits(4); link_speed_enabled = bits(4)
    neighbor_mtu = bits(4); master_sm_sl = bits(4); vl_cap = bits(4); init_type = bits(4)
    vl_high_limit = bits(8); vl_arb_high_cap = bits(8)
    vl_arb_low_cap = bits(8); init_type_reply = bits(4); mtu_cap = bits(4); vl_stall_count = bits(3)
    hoq_life = bits(5); operational_vls = bits(4); partition_enforcement_inbound = bits(1)
    partition_enforcement_outbound = bits(1); filter_raw_inbound = bits(1)
    filter_raw_outbound = bits(1); mkey_violations = bits(16); pkey_violations = bits(16)
    qkey_violations = bits(16); guid_cap = bits(8); client_reregister = bits(1)
    multicast_pkey_trap_suppression = bits(2); subnet_timeout = bits(5)
    _ = rsvd(3); resp_time_value = bits(5); local_phy_errors = bits(4); overrun_errors = bits(4)
    max_credit_hint = bits(16); _ = rsvd(8); link_roundtrip_latency = bits(24)
    cap_mask2 = bits(16); link_speed_ext_active = bits(4); link_speed_ext_supported = bits(4)
    _ = rsvd(3); link_speed_ext_enabled = bits(5)

class switch_info(Prm):
    linear_fdb_cap = bits(16); random_fdb_cap = bits(16)
    multicast_fdb_cap = bits(16); linear_fdb_top = bits(16)
    default_port = bits(8); default_mcast_primary = bits(8); default_mcast_not_primary = bits(8)
    life_time_value = bits(5); port_state_change = bits(1); opt_sl_to_vl_mapping = bits(2)
    lids_per_port = bits(16); partition_enforcement_cap = bits(16)
    inbound_enforcement_cap = bits(1); outbound_enforcement_cap = bits(1)
    filter_raw_inbound_cap = bits(1); filter_raw_outbound_cap = bits(1); enhanced_port0 = bits(1)
    _ = rsvd(3); multicast_fdb_top = bits(16)

class sm_info(Prm):
    guid = bits(64); sm_key = bits(64); act_count = bits(32); priority = bits(4); sm_state = bits(4)

class Notice(Prm, abstract=True):
    """Common head of each notice (IBTA 13.4.8.2); the following fields depend on the trap."""

    is_generic = bits(1); trap_type = bits(7); producer_type = bits(24)
    trap_num = bits(16); issuer_lid = bits(16); toggle = bits(1); count = bits(15)

class link_notice(Notice): lid = bits(16); _ = rsvd(416)
class port_notice(Notice): _ = rsvd(16); lid = bits(16); port_num = bits(8); _ = rsvd(392)

class bad_mkey_notice(Notice):
    _ = rsvd(16); lid = bits(16); dr_slid = bits(16)
    method = bits(8); _ = rsvd(8); attr_id = bits(16); attr_mod = bits(32); mkey = bits(64)
    _ = rsvd(8); dr_notice = bits(1); dr_path_truncated = bits(1); dr_hop_count = bits(6)
    dr_return_path = octets(30)

class local_change_notice(Notice):
    _ = rsvd(16); lid = bits(16); _ = rsvd(15); other_local_changes = bits(1); cap_mask = bits(32)
    _ = rsvd(13); link_speed_change = bits(1); link_width_change = bits(1)
    node_description_change = bits(1); cap_mask2 = bits(16); _ = rsvd(320)

class linear_forw_table(Prm): port = array(64, bits(8))
class mcast_forw_table(Prm): port_mask = array(32, bits(16))
class guid_info(Prm): guid = array(8, bits(64))
class pkey_table(Prm): pkey = array(32, bits(16))
class pma_mad(Prm): mad_hdr = nested(mad_hdr); _ = rsvd(320); data = octets(192)

class pma_portcounters(Prm, c_name="ib_pma_portcounters"):
    _ = rsvd(8); port_select = bits(8); counter_select = bits(16)
    symbol_error_counter = bits(16); link_error_recovery_counter = bits(8)
    link_downed_counter = bits(8); port_rcv_errors = bits(16); port_rcv_remphys_errors = bits(16)
    port_rcv_switch_relay_errors = bits(16); port_xmit_discards = bits(16)
    port_xmit_constraint_errors = bits(8); port_rcv_constraint_errors = bits(8); _ = rsvd(8)
    local_link_integrity_errors = bits(4); excessive_buffer_overrun_errors = bits(4)
    _ = rsvd(16); vl15_dropped = bits(16); port_xmit_data = bits(32); port_rcv_data = bits(32)
    port_xmit_packets = bits(32); port_rcv_packets = bits(32); port_xmit_wait = bits(32)

class pma_portcounters_ext(Prm, c_name="ib_pma_portcounters_ext"):
    _ = rsvd(8); port_select = bits(8); counter_select = bits(16); _ = rsvd(32)
    port_xmit_data = bits(64); port_rcv_data = bits(64); port_xmit_packets = bits(64)
    port_rcv_packets = bits(64); port_unicast_xmit_packets = bits(64)
    port_unicast_rcv_packets = bits(64); port_multicast_xmit_packets = bits(64)
    port_multicast_rcv_packets = bits(64)

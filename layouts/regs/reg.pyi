# Written by scripts/gen-view-types from reg.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Octets
from layouts.prm import Prm

class AccessRegisterIn(View):
    opcode: int
    op_mod: int
    register_id: int
    argument: int
    register_data: Items[int]

access_register_in: Prm[AccessRegisterIn]

class AccessRegisterOut(View):
    status: int
    syndrome: int
    register_data: Items[int]

access_register_out: Prm[AccessRegisterOut]

class PcapReg(View):
    local_port: int
    port_capability_mask: Items[int]

pcap_reg: Prm[PcapReg]

class PmtuReg(View):
    local_port: int
    max_mtu: int
    admin_mtu: int
    oper_mtu: int

pmtu_reg: Prm[PmtuReg]

class PtysReg(View):
    an_disable_admin: int
    an_disable_cap: int
    local_port: int
    plane_ind: int
    proto_mask: int
    an_status: int
    data_rate_oper: int
    ext_eth_proto_capability: int
    eth_proto_capability: int
    ib_link_width_capability: int
    ib_proto_capability: int
    ext_eth_proto_admin: int
    eth_proto_admin: int
    ib_link_width_admin: int
    ib_proto_admin: int
    ext_eth_proto_oper: int
    eth_proto_oper: int
    ib_link_width_oper: int
    ib_proto_oper: int
    connector_type: int
    eth_proto_lp_advertise: int

ptys_reg: Prm[PtysReg]

class PaosReg(View):
    swid: int
    local_port: int
    admin_status: int
    oper_status: int
    ase: int
    ee: int
    e: int

paos_reg: Prm[PaosReg]

class PvlcReg(View):
    local_port: int
    vl_hw_cap: int
    vl_admin: int
    vl_operational: int

pvlc_reg: Prm[PvlcReg]

class PpcntReg(View):
    swid: int
    local_port: int
    pnat: int
    grp: int
    clr: int
    prio_tc: int
    counter_set: Octets

ppcnt_reg: Prm[PpcntReg]

class IbPortCntrsGrpDataLayout(View):
    symbol_error_counter: int
    link_error_recovery_counter: int
    link_downed_counter: int
    port_rcv_errors: int
    port_rcv_remote_physical_errors: int
    port_rcv_switch_relay_errors: int
    port_xmit_discards: int
    port_xmit_constraint_errors: int
    port_rcv_constraint_errors: int
    link_overrun_errors: int
    vl_15_dropped: int
    port_xmit_wait: int

ib_port_cntrs_grp_data_layout: Prm[IbPortCntrsGrpDataLayout]

class MrtcReg(View):
    time_synced: int
    time_h: int
    time_l: int

mrtc_reg: Prm[MrtcReg]

class MpeinReg(View):
    depth: int
    pcie_index: int
    node: int
    capability_mask: int
    link_width_enabled: int
    link_speed_enabled: int
    lane0_physical_position: int
    link_width_active: int
    link_speed_active: int
    num_of_pfs: int
    num_of_vfs: int
    bdf0: int
    max_read_request_size: int
    max_payload_size: int
    pwr_status: int
    port_type: int
    lane_reversal: int
    pci_power: int
    device_status: int
    port_state: int
    receiver_detect_result: int

mpein_reg: Prm[MpeinReg]

class NodeDescReg(View):
    desc: Octets

node_desc_reg: Prm[NodeDescReg]

class HostEndiannessReg(View):
    he: int

host_endianness_reg: Prm[HostEndiannessReg]

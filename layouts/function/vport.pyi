# Written by scripts/gen-view-types from vport.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm

class HcaVportContext(View):
    field_select: int
    sm_virt_aware: int
    has_smi: int
    has_raw: int
    grh_required: int
    num_port_plane: int
    port_physical_state: int
    vport_state_policy: int
    port_state: int
    vport_state: int
    system_image_guid: int
    port_guid: int
    node_guid: int
    cap_mask1: int
    cap_mask1_field_select: int
    cap_mask2: int
    cap_mask2_field_select: int
    lid: int
    init_type_reply: int
    lmc: int
    subnet_timeout: int
    sm_lid: int
    sm_sl: int
    qkey_violation_counter: int
    pkey_violation_counter: int

hca_vport_context: Prm[HcaVportContext]

class QueryHcaVportContextIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    port_num: int
    vport_number: int

query_hca_vport_context_in: Prm[QueryHcaVportContextIn]

class QueryHcaVportContextOut(View):
    status: int
    syndrome: int
    hca_vport_context: Nested[HcaVportContext]

query_hca_vport_context_out: Prm[QueryHcaVportContextOut]

class ModifyHcaVportContextIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    port_num: int
    vport_number: int
    hca_vport_context: Nested[HcaVportContext]

modify_hca_vport_context_in: Prm[ModifyHcaVportContextIn]

class ModifyHcaVportContextOut(View):
    status: int
    syndrome: int

modify_hca_vport_context_out: Prm[ModifyHcaVportContextOut]

class QueryHcaVportGidIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    port_num: int
    vport_number: int
    gid_index: int

query_hca_vport_gid_in: Prm[QueryHcaVportGidIn]

class QueryHcaVportGidOut(View):
    status: int
    syndrome: int
    gids_num: int
    gid: Items[bytes]

query_hca_vport_gid_out: Prm[QueryHcaVportGidOut]

class QueryHcaVportPkeyIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    port_num: int
    vport_number: int
    pkey_index: int

query_hca_vport_pkey_in: Prm[QueryHcaVportPkeyIn]

class Pkey(View):
    pkey: int

pkey: Prm[Pkey]

class QueryHcaVportPkeyOut(View):
    status: int
    syndrome: int
    pkey: Items[Pkey]

query_hca_vport_pkey_out: Prm[QueryHcaVportPkeyOut]

class QueryVportStateIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int

query_vport_state_in: Prm[QueryVportStateIn]

class QueryVportStateOut(View):
    status: int
    syndrome: int
    admin_state: int
    state: int

query_vport_state_out: Prm[QueryVportStateOut]

class TrafficCounter(View):
    packets: int
    octets: int

traffic_counter: Prm[TrafficCounter]

class QueryVportCounterIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    port_num: int
    vport_number: int
    clear: int

query_vport_counter_in: Prm[QueryVportCounterIn]

class QueryVportCounterOut(View):
    status: int
    syndrome: int
    received_errors: Nested[TrafficCounter]
    transmit_errors: Nested[TrafficCounter]
    received_ib_unicast: Nested[TrafficCounter]
    transmitted_ib_unicast: Nested[TrafficCounter]
    received_ib_multicast: Nested[TrafficCounter]
    transmitted_ib_multicast: Nested[TrafficCounter]
    received_eth_broadcast: Nested[TrafficCounter]
    transmitted_eth_broadcast: Nested[TrafficCounter]
    received_eth_unicast: Nested[TrafficCounter]
    transmitted_eth_unicast: Nested[TrafficCounter]
    received_eth_multicast: Nested[TrafficCounter]
    transmitted_eth_multicast: Nested[TrafficCounter]
    local_loopback: Nested[TrafficCounter]

query_vport_counter_out: Prm[QueryVportCounterOut]

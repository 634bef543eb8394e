# Written by scripts/gen-view-types from lag.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.function.eth_caps import FlowTableFieldsSupported2, FlowTablePropLayout
from layouts.prm import Prm

class Lagc(View):
    fdb_selection_mode: int
    port_select_mode: int
    lag_state: int
    active_port: int
    tx_remap_affinity_2: int
    tx_remap_affinity_1: int

lagc: Prm[Lagc]

class PortSelectionCap(View):
    port_select_flow_table: int
    port_select_flow_table_bypass: int
    flow_table_properties_port_selection: Nested[FlowTablePropLayout]
    ft_field_support_2_port_selection: Nested[FlowTableFieldsSupported2]

port_selection_cap: Prm[PortSelectionCap]

class QueryLagIn(View):
    opcode: int
    op_mod: int

query_lag_in: Prm[QueryLagIn]

class QueryLagOut(View):
    status: int
    syndrome: int
    ctx: Nested[Lagc]

query_lag_out: Prm[QueryLagOut]

class CreateLagIn(View):
    opcode: int
    op_mod: int
    ctx: Nested[Lagc]

create_lag_in: Prm[CreateLagIn]

class CreateLagOut(View):
    status: int
    syndrome: int

create_lag_out: Prm[CreateLagOut]

class ModifyLagIn(View):
    opcode: int
    op_mod: int
    field_select: int
    ctx: Nested[Lagc]

modify_lag_in: Prm[ModifyLagIn]

class ModifyLagOut(View):
    status: int
    syndrome: int

modify_lag_out: Prm[ModifyLagOut]

class DestroyLagIn(View):
    opcode: int
    op_mod: int

destroy_lag_in: Prm[DestroyLagIn]

class DestroyLagOut(View):
    status: int
    syndrome: int

destroy_lag_out: Prm[DestroyLagOut]

class CreateVportLagIn(View):
    opcode: int
    op_mod: int

create_vport_lag_in: Prm[CreateVportLagIn]

class CreateVportLagOut(View):
    status: int
    syndrome: int

create_vport_lag_out: Prm[CreateVportLagOut]

class DestroyVportLagIn(View):
    opcode: int
    op_mod: int

destroy_vport_lag_in: Prm[DestroyVportLagIn]

class DestroyVportLagOut(View):
    status: int
    syndrome: int

destroy_vport_lag_out: Prm[DestroyVportLagOut]

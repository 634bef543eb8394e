# Written by scripts/gen-view-types from esw_vport.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.prm import Prm

class EswVportContext(View):
    fdb_to_vport_reg_c: int
    vport_svlan_strip: int
    vport_cvlan_strip: int
    vport_svlan_insert: int
    vport_cvlan_insert: int
    fdb_to_vport_reg_c_id: int
    svlan_cfi: int
    svlan_pcp: int
    svlan_id: int
    cvlan_cfi: int
    cvlan_pcp: int
    cvlan_id: int
    sw_steering_vport_icm_address_rx: int
    sw_steering_vport_icm_address_tx: int

esw_vport_context: Prm[EswVportContext]

class QueryEswVportContextIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int

query_esw_vport_context_in: Prm[QueryEswVportContextIn]

class QueryEswVportContextOut(View):
    status: int
    syndrome: int
    esw_vport_context: Nested[EswVportContext]

query_esw_vport_context_out: Prm[QueryEswVportContextOut]

class EswVportContextFieldsSelect(View):
    fdb_to_vport_reg_c_id: int
    vport_cvlan_insert: int
    vport_svlan_insert: int
    vport_cvlan_strip: int
    vport_svlan_strip: int

esw_vport_context_fields_select: Prm[EswVportContextFieldsSelect]

class ModifyEswVportContextIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    field_select: Nested[EswVportContextFieldsSelect]
    esw_vport_context: Nested[EswVportContext]

modify_esw_vport_context_in: Prm[ModifyEswVportContextIn]

class ModifyEswVportContextOut(View):
    status: int
    syndrome: int

modify_esw_vport_context_out: Prm[ModifyEswVportContextOut]

class HostParamsContext(View):
    host_number: int
    host_pf_not_exist: int
    host_pf_disabled: int
    host_num_of_vfs: int
    host_total_vfs: int
    host_pci_bus: int
    host_pci_device: int
    host_pci_function: int

host_params_context: Prm[HostParamsContext]

class QueryEswFunctionsIn(View):
    opcode: int
    op_mod: int

query_esw_functions_in: Prm[QueryEswFunctionsIn]

class QueryEswFunctionsOut(View):
    status: int
    syndrome: int
    host_params_context: Nested[HostParamsContext]

query_esw_functions_out: Prm[QueryEswFunctionsOut]

# Written by scripts/gen-view-types from sf.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.prm import Prm

class AllocSfIn(View):
    opcode: int
    op_mod: int
    function_id: int

alloc_sf_in: Prm[AllocSfIn]

class AllocSfOut(View):
    status: int
    syndrome: int

alloc_sf_out: Prm[AllocSfOut]

class DeallocSfIn(View):
    opcode: int
    op_mod: int
    function_id: int

dealloc_sf_in: Prm[DeallocSfIn]

class DeallocSfOut(View):
    status: int
    syndrome: int

dealloc_sf_out: Prm[DeallocSfOut]

class VhcaStateContext(View):
    arm_change_event: int
    vhca_state: int
    sw_function_id: int

vhca_state_context: Prm[VhcaStateContext]

class QueryVhcaStateIn(View):
    opcode: int
    op_mod: int
    embedded_cpu_function: int
    function_id: int

query_vhca_state_in: Prm[QueryVhcaStateIn]

class QueryVhcaStateOut(View):
    status: int
    syndrome: int
    vhca_state_context: Nested[VhcaStateContext]

query_vhca_state_out: Prm[QueryVhcaStateOut]

class VhcaStateFieldSelect(View):
    sw_function_id: int
    arm_change_event: int

vhca_state_field_select: Prm[VhcaStateFieldSelect]

class ModifyVhcaStateIn(View):
    opcode: int
    op_mod: int
    embedded_cpu_function: int
    function_id: int
    vhca_state_field_select: Nested[VhcaStateFieldSelect]
    vhca_state_context: Nested[VhcaStateContext]

modify_vhca_state_in: Prm[ModifyVhcaStateIn]

class ModifyVhcaStateOut(View):
    status: int
    syndrome: int

modify_vhca_state_out: Prm[ModifyVhcaStateOut]

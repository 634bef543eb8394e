# Written by scripts/gen-view-types from hca.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested, Octets
from layouts.prm import Prm

class EnableHcaIn(View):
    opcode: int
    op_mod: int
    embedded_cpu_function: int
    function_id: int

enable_hca_in: Prm[EnableHcaIn]

class EnableHcaOut(View):
    status: int
    syndrome: int

enable_hca_out: Prm[EnableHcaOut]

class DisableHcaIn(View):
    opcode: int
    op_mod: int
    embedded_cpu_function: int
    function_id: int

disable_hca_in: Prm[DisableHcaIn]

class DisableHcaOut(View):
    status: int
    syndrome: int

disable_hca_out: Prm[DisableHcaOut]

class InitHcaIn(View):
    opcode: int
    op_mod: int
    sw_vhca_id: int
    sw_owner_id: Octets

init_hca_in: Prm[InitHcaIn]

class InitHcaOut(View):
    status: int
    syndrome: int

init_hca_out: Prm[InitHcaOut]

class TeardownHcaIn(View):
    opcode: int
    op_mod: int
    profile: int

teardown_hca_in: Prm[TeardownHcaIn]

class TeardownHcaOut(View):
    status: int
    syndrome: int
    state: int

teardown_hca_out: Prm[TeardownHcaOut]

class QueryIssiIn(View):
    opcode: int
    op_mod: int

query_issi_in: Prm[QueryIssiIn]

class QueryIssiOut(View):
    status: int
    syndrome: int
    current_issi: int
    supported_issi_dw0: int

query_issi_out: Prm[QueryIssiOut]

class SetIssiIn(View):
    opcode: int
    op_mod: int
    current_issi: int

set_issi_in: Prm[SetIssiIn]

class SetIssiOut(View):
    status: int
    syndrome: int

set_issi_out: Prm[SetIssiOut]

class QueryAdapterIn(View):
    opcode: int
    op_mod: int

query_adapter_in: Prm[QueryAdapterIn]

class QueryAdapterParamBlock(View):
    ieee_vendor_id: int
    vsd_vendor_id: int
    vsd: Octets
    vsd_contd_psid: Octets

query_adapter_param_block: Prm[QueryAdapterParamBlock]

class QueryAdapterOut(View):
    status: int
    syndrome: int
    query_adapter_struct: Nested[QueryAdapterParamBlock]

query_adapter_out: Prm[QueryAdapterOut]

class QuerySpecialContextsIn(View):
    opcode: int
    op_mod: int

query_special_contexts_in: Prm[QuerySpecialContextsIn]

class QuerySpecialContextsOut(View):
    status: int
    syndrome: int
    dump_fill_mkey: int
    resd_lkey: int
    null_mkey: int
    terminate_scatter_list_mkey: int
    repeated_mkey: int

query_special_contexts_out: Prm[QuerySpecialContextsOut]

class SetDriverVersionIn(View):
    opcode: int
    op_mod: int
    driver_version: Octets

set_driver_version_in: Prm[SetDriverVersionIn]

class SetDriverVersionOut(View):
    status: int
    syndrome: int

set_driver_version_out: Prm[SetDriverVersionOut]

# Written by scripts/gen-view-types from eqe.py; a test fails when it is stale.

from typing import Final

from layouts.codec import View
from layouts.fields import Nested, Octets
from layouts.prm import Prm

EQE_BYTES: Final = 64
EQE_DATA_OFFSET: Final = 32

class Eqe(View):
    type: int
    sub_type: int
    data: Octets
    signature: int
    owner: int

eqe: Prm[Eqe]

class EqeComp(View):
    cqn: int

eqe_comp: Prm[EqeComp]

class EqeCmd(View):
    vector: int

eqe_cmd: Prm[EqeCmd]

class EqeQpSrq(View):
    type: int
    qp_srq_n: int

eqe_qp_srq: Prm[EqeQpSrq]

class EqeDct(View):
    dctn: int

eqe_dct: Prm[EqeDct]

class EqeCqErr(View):
    cqn: int
    syndrome: int

eqe_cq_err: Prm[EqeCqErr]

class EqePortStatePort(View):
    port_num: int

class EqePortState(View):
    port: Nested[EqePortStatePort]

eqe_port_state: Prm[EqePortState]

class EqePortModule(View):
    module: int
    module_status: int
    error_type: int

eqe_port_module: Prm[EqePortModule]

class EqeTempWarning(View):
    sensor_warning_msb: int
    sensor_warning_lsb: int

eqe_temp_warning: Prm[EqeTempWarning]

class EqePps(View):
    pin: int
    time_stamp: int

eqe_pps: Prm[EqePps]

class EqePageReqEcFunction(View):
    embedded_cpu_function: int
    release_all_pages: int

class EqePageReq(View):
    ec_function: Nested[EqePageReqEcFunction]
    func_id: int
    num_pages: int

eqe_page_req: Prm[EqePageReq]

class EqeVportChange(View):
    vport_num: int

eqe_vport_change: Prm[EqeVportChange]

class EqeVhcaState(View):
    ec_function: int
    function_id: int

eqe_vhca_state: Prm[EqeVhcaState]

class PftypeWq(View):
    rdma: int
    write: int
    requestor: int
    wq: int

pftype_wq: Prm[PftypeWq]

class PftypeToken(View):
    rdma: int
    write: int
    requestor: int
    token: int

pftype_token: Prm[PftypeToken]

class EqePageFaultWqe(View):
    bytes_committed: int
    wqe_index: int
    packet_length: int
    token: int
    pftype_wq: Nested[PftypeWq]

eqe_page_fault_wqe: Prm[EqePageFaultWqe]

class EqePageFaultRdma(View):
    bytes_committed: int
    r_key: int
    packet_length: int
    rdma_op_len: int
    rdma_va: int
    pftype_token: Nested[PftypeToken]

eqe_page_fault_rdma: Prm[EqePageFaultRdma]

class EqePageFaultMemory(View):
    flags: int
    post_demand_fault_pages: int
    pre_demand_fault_pages: int
    token47_32: int
    token31_0: int
    demand_fault_pages: int
    mkey: int
    va: int

eqe_page_fault_memory: Prm[EqePageFaultMemory]

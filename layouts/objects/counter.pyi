# Written by scripts/gen-view-types from counter.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.prm import Prm

class AllocQCounterIn(View):
    opcode: int
    uid: int
    op_mod: int

alloc_q_counter_in: Prm[AllocQCounterIn]

class AllocQCounterOut(View):
    status: int
    syndrome: int
    counter_set_id: int

alloc_q_counter_out: Prm[AllocQCounterOut]

class DeallocQCounterIn(View):
    opcode: int
    op_mod: int
    counter_set_id: int

dealloc_q_counter_in: Prm[DeallocQCounterIn]

class DeallocQCounterOut(View):
    status: int
    syndrome: int

dealloc_q_counter_out: Prm[DeallocQCounterOut]

class QueryQCounterIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int
    clear: int
    aggregate: int
    counter_set_id: int

query_q_counter_in: Prm[QueryQCounterIn]

class QueryQCounterOut(View):
    status: int
    syndrome: int
    rx_write_requests: int
    rx_read_requests: int
    rx_atomic_requests: int
    rx_dct_connect: int
    out_of_buffer: int
    out_of_sequence: int
    duplicate_request: int
    rnr_nak_retry_err: int
    packet_seq_err: int
    implied_nak_seq_err: int
    local_ack_timeout_err: int
    req_rnr_retries_exceeded: int
    resp_local_length_error: int
    req_local_length_error: int
    resp_local_qp_error: int
    local_operation_error: int
    resp_local_protection: int
    req_local_protection: int
    resp_cqe_error: int
    req_cqe_error: int
    req_mw_binding: int
    req_bad_response: int
    req_remote_invalid_request: int
    resp_remote_invalid_request: int
    req_remote_access_errors: int
    resp_remote_access_errors: int
    req_remote_operation_errors: int
    req_transport_retries_exceeded: int
    cq_overflow: int
    resp_cqe_flush_error: int
    req_cqe_flush_error: int
    roce_adp_retrans: int
    roce_adp_retrans_to: int
    roce_slow_restart: int
    roce_slow_restart_cnps: int
    roce_slow_restart_trans: int

query_q_counter_out: Prm[QueryQCounterOut]

class VnicDiagnosticStatistics(View):
    counter_error_queues: int
    total_error_queues: int
    send_queue_priority_update_flow: int
    nic_receive_steering_discard: int
    receive_discard_vport_down: int
    transmit_discard_vport_down: int
    async_eq_overrun: int
    comp_eq_overrun: int
    invalid_command: int
    quota_exceeded_command: int
    internal_rq_out_of_buffer: int
    cq_overrun: int
    eth_wqe_too_small: int
    generated_pkt_steering_fail: int
    handled_pkt_steering_fail: int

vnic_diagnostic_statistics: Prm[VnicDiagnosticStatistics]

class QueryVnicEnvIn(View):
    opcode: int
    op_mod: int
    other_vport: int
    vport_number: int

query_vnic_env_in: Prm[QueryVnicEnvIn]

class QueryVnicEnvOut(View):
    status: int
    syndrome: int
    vport_env: Nested[VnicDiagnosticStatistics]

query_vnic_env_out: Prm[QueryVnicEnvOut]
